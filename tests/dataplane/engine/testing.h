// Shared by the engine's tests: programs of tests/data/p4, frames, and an output that records.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::engine {

using Frame = std::vector<std::byte>;

inline constexpr std::int64_t kMillisecond = 1'000'000;  // a frame of 1000 bytes at 8 Mbit/s
inline constexpr std::uint32_t kOut = 2;                 // the port whose queue is tested

std::string program_text(const std::string& name);
std::shared_ptr<const Program> load_program(const std::string& name);
// The text with `to` instead of the first `from`.
std::string with(std::string text, const std::string& from, const std::string& to);

// Appends big-endian numbers. `bits`: a multiple of 8, at most 64.
class FrameBuilder {
 public:
  FrameBuilder& put(std::uint64_t value, unsigned bits);
  FrameBuilder& pad_to(std::size_t bytes);
  Frame take() { return std::move(frame_); }

 private:
  Frame frame_;
};
// The number in `bytes` bytes of a frame, from `offset` on.
std::uint64_t number_at(const Frame& frame, std::size_t offset, std::size_t bytes);
// A byte string as the control plane uses.
Bytes big_endian(std::uint64_t value, std::size_t bytes);

class Recorder : public Output {
 public:
  struct Sent {
    std::uint32_t port;
    Frame frame;
    std::int64_t due_ns;
  };
  void transmit(std::uint32_t port, std::span<const std::byte> frame,
                std::int64_t due_ns) override {
    sent.push_back({port, Frame(frame.begin(), frame.end()), due_ns});
  }
  void packet_in(std::span<const std::byte> frame) override {
    punted.emplace_back(frame.begin(), frame.end());
  }
  std::vector<std::uint32_t> ports() const;
  std::vector<Sent> sent;
  std::vector<Frame> punted;
};

// A switch with unlimited ports 1 to 8.
class Bench {
 public:
  explicit Bench(const std::string& program, Switch::Options options = {});
  explicit Bench(std::shared_ptr<const Program> program, Switch::Options options = {});
  void receive(std::uint32_t port, const Frame& frame) { sw.receive(port, frame, now); }
  // Performs everything that is due, however late.
  void finish();
  Recorder out;
  Switch sw;
  std::int64_t now = 0;
};

#define EXPECT_OK(expression)                                              \
  do {                                                                     \
    const ::tiercast::engine::Status status_ = (expression);               \
    EXPECT_TRUE(status_.ok()) << #expression << ": " << status_.message(); \
  } while (false)

}  // namespace tiercast::engine
