#include "dataplane/switch/p4runtime/controller_stream.h"

#include <utility>

namespace tiercast::vswitch {

ControllerStream::ControllerStream(Stream& stream)
    : stream_(stream), writer_([this] { write_loop(); }) {}

ControllerStream::~ControllerStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  writer_.join();
}

bool ControllerStream::push(p4::v1::StreamMessageResponse message) {
  const std::size_t bytes = message.ByteSizeLong();
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kMaxQueued || queued_bytes_ >= kMaxQueuedBytes) return false;
    queue_.push_back(std::move(message));
    queued_bytes_ += bytes;
  }
  changed_.notify_one();
  return true;
}

void ControllerStream::write_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const p4::v1::StreamMessageResponse message = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= message.ByteSizeLong();
    lock.unlock();
    const bool written = stream_.Write(message);
    lock.lock();
    if (!written) {  // the controller has gone
      queue_.clear();
      queued_bytes_ = 0;
    }
  }
}

}  // namespace tiercast::vswitch
