// An agent's stream to the lab (tiercast.v1.Lab/Attach), on its own two threads.
//
//   reader   connects, says Hello, blocks in Read; puts events into a queue and rings an eventfd
//   writer   blocks until send() gives it records; writes them
// The caller's loop watches descriptor() and takes events with poll(). Neither thread
// touches anything of the caller.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/unique_fd.h"
#include "protocols/base/units.h"
#include "tiercast/v1/lab.grpc.pb.h"

namespace tiercast::agent {

struct LabWelcome {};
struct LabStart {
  Time said;  // by the lab
};
struct LabStop {};
struct LabMembership {
  std::uint32_t session;
  int top_rank;  // -1: nobody subscribes
};
// The stream is over although the lab did not say Stop. Always the last event.
struct LabLost {
  std::string reason;
};
using LabEvent = std::variant<LabWelcome, LabStart, LabStop, LabMembership, LabLost>;

class LabClient {
 public:
  static constexpr Duration kConnectTimeout = Duration::milliseconds(10'000);
  static constexpr Duration kFinishTimeout = Duration::milliseconds(2'000);
  static constexpr std::size_t kMaxQueuedBatches = 300;  // one minute at 5 Hz

  // `address`: "unix:/path" or "host:port". Connecting goes on in the background.
  LabClient(const std::string& address, const v1::Hello& hello);
  ~LabClient();
  LabClient(const LabClient&) = delete;
  LabClient& operator=(const LabClient&) = delete;

  int descriptor() const { return wakeup_.get(); }  // readable when poll() has something
  std::optional<LabEvent> poll();

  // Queues records; never blocks. If the lab takes nothing for a minute, the
  // newest are dropped and counted.
  void send(v1::Records records);
  std::uint64_t dropped_records() const;

  // Writes what is queued, closes the stream and ends both threads; gives up after kFinishTimeout.
  void finish();

 private:
  using Stream = grpc::ClientReaderWriter<v1::FromAgent, v1::ToAgent>;

  void read_loop();
  void write_loop();
  bool connect();
  void push(LabEvent event);

  const std::string address_;
  const v1::Hello hello_;
  UniqueFd wakeup_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Lab::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;  // set by the reader before the writer starts

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<LabEvent> events_;
  std::deque<v1::Records> outgoing_;
  std::uint64_t dropped_ = 0;
  bool finishing_ = false;
  bool over_ = false;  // the reader has seen the end of the stream

  std::thread reader_;
  std::thread writer_;  // started by the reader once the stream is open
};

}  // namespace tiercast::agent
