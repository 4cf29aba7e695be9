// An agent's stream to the lab (tiercast.v1.Lab/Attach), on two threads of its own.
//
//   reader   connects, says Hello, blocks in Read; puts events into a queue and writes to an
//   eventfd writer   blocks until send() gives it records, then writes them
// The caller's loop watches descriptor() and takes events with poll(). Neither thread touches
// anything that belongs to the caller.
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

#include "agent/digest.h"
#include "base/unique_fd.h"
#include "proto/access.h"
#include "protocols/base/units.h"
#include "tiercast/v1/lab.grpc.pb.h"

namespace tiercast::agent {

struct LabWelcome {
  v1::Welcome said;
};
struct LabObject {
  Digest sha256;
};
struct LabStart {
  Time sent_at;  // when the lab sent it
};
struct LabLeave {
  Time sent_at;
};
struct LabStop {};
struct LabMembership {
  std::uint32_t session;
  int top_rank;  // -1: nobody subscribes
};
// The stream ended without a Stop from the lab, and the lab has not returned. Always the last
// event.
struct LabLost {
  std::string reason;
};
using LabEvent =
    std::variant<LabWelcome, LabObject, LabStart, LabLeave, LabStop, LabMembership, LabLost>;

class LabClient {
 public:
  static constexpr Duration kConnectTimeout = Duration::milliseconds(10'000);
  static constexpr Duration kFinishTimeout = Duration::milliseconds(2'000);
  static constexpr std::size_t kMaxQueuedBatches = 300;  // one minute at 5 Hz

  // `address`: "unix:/path" or "host:port". Connects in the background. A lab that has died may
  // return within `patience`; it then gets the same Hello, and what was not sent to the one that
  // has died. What was on its way to that one is lost: no record comes twice. ConfigError: `access`
  // does not do for the address.
  LabClient(const std::string& address, const v1::Hello& hello, const control::Access& access = {},
            Duration patience = Duration::zero());
  ~LabClient();
  LabClient(const LabClient&) = delete;
  LabClient& operator=(const LabClient&) = delete;

  int descriptor() const { return wakeup_.get(); }  // readable when poll() has an event
  std::optional<LabEvent> poll();

  // Queues records without blocking. If the lab has taken nothing for a minute, the newest records
  // are dropped and counted.
  void send(v1::Records records);
  // Those that were not sent to any lab: the queue was full, or finish() has given up.
  std::uint64_t dropped_records() const;

  // Writes what is queued, closes the stream and ends both threads. Gives up after kFinishTimeout;
  // what is queued then is dropped and counted.
  void finish();

 private:
  using Stream = grpc::ClientReaderWriter<v1::FromAgent, v1::ToAgent>;

  void read_loop();
  void write_loop();
  // Attaches once `patience` has not passed. Returns whether somebody answers.
  bool connect(Duration patience);
  // Reads one stream to its end. Sets `stopped` after a Stop.
  grpc::Status attend(bool& stopped);
  void push(LabEvent event);

  const std::string address_;
  const v1::Hello hello_;
  const Duration patience_;
  UniqueFd wakeup_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Lab::Stub> stub_;
  std::unique_ptr<Stream> stream_;  // set by the reader before the writer starts
  bool attached_ = false;           // to some lab, at least once; the reader's

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<LabEvent> events_;
  std::deque<v1::Records> outgoing_;
  std::uint64_t dropped_ = 0;
  std::unique_ptr<grpc::ClientContext> context_;  // of the last stream
  bool finishing_ = false;
  bool ended_ = false;  // the reader has seen the stream end
  bool over_ = false;   // it will open no other one

  std::thread reader_;
};

}  // namespace tiercast::agent
