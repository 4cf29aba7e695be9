#include "dataplane/delay_line/delay_line.h"

#include <utility>

namespace tiercast::delay_line {

void DelayLine::put(std::span<const std::byte> frame, std::int64_t now_ns) {
  std::vector<std::byte> bytes;
  if (!spare_.empty()) {
    bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  bytes.assign(frame.begin(), frame.end());
  line_.push_back({now_ns + delay_ns_, std::move(bytes)});
}

std::optional<std::int64_t> DelayLine::next_due() const {
  if (line_.empty()) return std::nullopt;
  return line_.front().due_ns;
}

std::optional<DelayLine::Out> DelayLine::take(std::int64_t now_ns) {
  if (line_.empty() || line_.front().due_ns > now_ns) return std::nullopt;
  spare_.push_back(std::exchange(out_, std::move(line_.front().bytes)));
  const std::int64_t due_ns = line_.front().due_ns;
  line_.pop_front();
  return Out{out_, due_ns};
}

}  // namespace tiercast::delay_line
