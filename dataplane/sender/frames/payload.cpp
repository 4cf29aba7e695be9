#include "dataplane/sender/frames/payload.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "agent/file.h"

namespace tiercast::sender {
namespace {

class FilePayload final : public PayloadSource {
 public:
  explicit FilePayload(std::shared_ptr<const agent::FileContents> file) : file_(std::move(file)) {}
  bool fill(std::span<std::byte> out) override {
    const auto bytes = file_->bytes();
    while (!out.empty()) {
      const std::size_t n = std::min(out.size(), bytes.size() - at_);
      std::memcpy(out.data(), bytes.data() + at_, n);
      out = out.subspan(n);
      at_ = at_ + n == bytes.size() ? 0 : at_ + n;
    }
    return true;
  }

 private:
  const std::shared_ptr<const agent::FileContents> file_;
  std::size_t at_ = 0;
};

// A ring between the thread that reads and the one that fills packets.
class StreamPayload final : public PayloadSource {
 public:
  explicit StreamPayload(int descriptor)
      : descriptor_(descriptor), ring_(kBytes), reader_([this] { read_all(); }) {}
  ~StreamPayload() override {
    ending_.store(true, std::memory_order_relaxed);
    reader_.join();
  }

  bool fill(std::span<std::byte> out) override {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t there = head_.load(std::memory_order_acquire) - tail;
    const std::size_t n = std::min(there, out.size());
    const std::size_t at = tail % kBytes;
    const std::size_t first = std::min(n, kBytes - at);
    std::memcpy(out.data(), ring_.data() + at, first);
    std::memcpy(out.data() + first, ring_.data(), n - first);
    std::memset(out.data() + n, 0, out.size() - n);
    tail_.store(tail + n, std::memory_order_release);
    return n == out.size();
  }

 private:
  static constexpr std::size_t kBytes = 1 << 20;

  void read_all() {
    while (!ending_.load(std::memory_order_relaxed)) {
      const std::size_t head = head_.load(std::memory_order_relaxed);
      const std::size_t room = kBytes - (head - tail_.load(std::memory_order_acquire));
      if (room == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      pollfd ready{descriptor_, POLLIN, 0};
      if (::poll(&ready, 1, 50) <= 0) continue;
      const std::size_t at = head % kBytes;
      const ssize_t n = read(descriptor_, ring_.data() + at, std::min(room, kBytes - at));
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return;
      if (n > 0) head_.store(head + static_cast<std::size_t>(n), std::memory_order_release);
    }
  }

  const int descriptor_;
  std::vector<std::byte> ring_;
  std::atomic<std::size_t> head_{0};
  std::atomic<std::size_t> tail_{0};
  std::atomic<bool> ending_{false};
  std::thread reader_;
};

}  // namespace

std::span<const std::byte> pattern() {
  static const auto kPattern = [] {
    std::array<std::byte, 9216> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    return bytes;
  }();
  return kPattern;
}

std::unique_ptr<PayloadSource> read_payload(int descriptor) {
  return std::make_unique<StreamPayload>(descriptor);
}

std::vector<std::unique_ptr<PayloadSource>> open_payload(const std::string& from,
                                                         std::size_t count) {
  std::vector<std::unique_ptr<PayloadSource>> sources(count);
  if (from.empty()) return sources;
  const auto file = from == "-" ? nullptr : std::make_shared<const agent::FileContents>(from);
  for (auto& source : sources) {
    if (file == nullptr) {
      source = read_payload(STDIN_FILENO);
    } else {
      source = std::make_unique<FilePayload>(file);
    }
  }
  return sources;
}

}  // namespace tiercast::sender
