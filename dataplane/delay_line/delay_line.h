// One direction of a link: every frame comes out `delay` after it went in, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace tiercast::delay_line {

// Times are nanoseconds of any clock that does not go back.
class DelayLine {
 public:
  explicit DelayLine(std::int64_t delay_ns) : delay_ns_(delay_ns) {}

  void put(std::span<const std::byte> frame, std::int64_t now_ns);

  // When the first frame is due; empty while the line is empty.
  std::optional<std::int64_t> next_due() const;

  // The first frame and its due time, if that is not after `now_ns`. The bytes are valid until the
  // next call of put() or take().
  struct Out {
    std::span<const std::byte> frame;
    std::int64_t due_ns;
  };
  std::optional<Out> take(std::int64_t now_ns);

 private:
  struct Entry {
    std::int64_t due_ns;
    std::vector<std::byte> bytes;
  };
  std::int64_t delay_ns_;
  std::deque<Entry> line_;
  std::vector<std::byte> out_;                 // frame of the last take()
  std::vector<std::vector<std::byte>> spare_;  // buffers for reuse
};

}  // namespace tiercast::delay_line
