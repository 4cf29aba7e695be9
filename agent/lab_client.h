// An agent's stream to the lab (tiercast.v1.Lab/Attach), on two threads of its own.
//
//   reader   connects, blocks in Read; puts events into a queue and writes to an eventfd
//   writer   says Hello, blocks until send() gives it records, then writes them
// Records are kept until the lab has acknowledged them, and are sent again to a lab that returns.
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
  static constexpr std::size_t kMaxKeptBytes = 4 << 20;  // of memory; of a host: some minutes

  // `address`: "unix:/path" or "host:port". Connects in the background. A lab that has died may
  // return within `patience`; it then gets the same Hello, and the records that were not
  // acknowledged, with their numbers, so that it can tell which of them it has. ConfigError:
  // `access` does not do for the address.
  LabClient(const std::string& address, const v1::Hello& hello, const control::Access& access = {},
            Duration patience = Duration::zero());
  ~LabClient();
  LabClient(const LabClient&) = delete;
  LabClient& operator=(const LabClient&) = delete;

  int descriptor() const { return wakeup_.get(); }  // readable when poll() has an event
  std::optional<LabEvent> poll();

  // Queues records without blocking. If those that are not acknowledged take more than
  // kMaxKeptBytes, the oldest are dropped and counted; the newest batch is always kept.
  void send(v1::Records records);
  // Those that were given up before a lab had acknowledged them, by send() or finish(). A lab may
  // have them nevertheless, if its acknowledgement was on its way.
  std::uint64_t dropped_records() const;

  // Writes what is queued, waits for its acknowledgement, closes the stream and ends both threads.
  // Waits for kFinishTimeout at most for the acknowledgement, with `patience` also of a lab that
  // returns, and as long again for the lab to end the stream. What is not acknowledged then is
  // dropped and counted.
  void finish();

 private:
  using Stream = grpc::ClientReaderWriter<v1::FromAgent, v1::ToAgent>;
  struct Batch {
    std::shared_ptr<const v1::FromAgent> message;  // the writer's, too
    std::size_t bytes;                             // of memory
    std::uint64_t end;                             // number of the record after its last
    std::uint64_t records() const {
      return static_cast<std::uint64_t>(message->records().records_size());
    }
  };

  void read_loop();
  void write_loop();
  // Attaches once `patience` has not passed. Returns whether somebody answers.
  bool connect(Duration patience);
  // Reads one stream to its end. Sets `stopped` after a Stop.
  grpc::Status attend(bool& stopped);
  void push(LabEvent event);
  void admitted();
  void acknowledged(std::uint64_t sequence);
  // All with the lock held.
  void drop_oldest();
  void forget_oldest();
  // Whether nothing is left to do for a lab that may return. The reader's.
  bool gives_up() const;

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
  std::deque<Batch> kept_;      // not acknowledged, in the order of numbers
  std::size_t kept_bytes_ = 0;  // of them
  std::size_t sent_ = 0;        // the first so many of them went to the present stream
  std::uint64_t sequence_ = 0;  // number of the next record
  std::uint64_t acknowledged_ = 0;
  std::uint64_t dropped_ = 0;
  std::unique_ptr<grpc::ClientContext> context_;  // of the last stream
  bool finishing_ = false;
  bool closing_ = false;   // finish() waits for no acknowledgement any more
  bool welcomed_ = false;  // on the present stream
  bool ended_ = false;     // the reader has seen the stream end
  bool over_ = false;      // it will open no other one

  std::thread reader_;
};

}  // namespace tiercast::agent
