// The sending half of one StreamChannel. Any thread may queue messages, and the stream's own thread
// writes them, so that neither the data plane nor another controller ever waits for a slow
// controller.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

class ControllerStream {
 public:
  using Stream =
      grpc::ServerReaderWriter<p4::v1::StreamMessageResponse, p4::v1::StreamMessageRequest>;
  static constexpr std::size_t kMaxQueued = 4096;            // messages
  static constexpr std::size_t kMaxQueuedBytes = 16u << 20;  // serialised

  explicit ControllerStream(Stream& stream);
  ~ControllerStream();  // still writes what is queued

  // False, and the message is dropped, if kMaxQueued messages or kMaxQueuedBytes bytes are waiting.
  bool push(p4::v1::StreamMessageResponse message);

 private:
  void write_loop();

  Stream& stream_;
  std::mutex mutex_;  // guards queue_, queued_bytes_ and closing_
  std::condition_variable changed_;
  std::deque<p4::v1::StreamMessageResponse> queue_;
  std::size_t queued_bytes_ = 0;
  bool closing_ = false;
  std::thread writer_;
};

}  // namespace tiercast::vswitch
