// Delay lines between pairs of interfaces, on packet sockets. A single thread, which sleeps between
// frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/turn_watch.h"
#include "base/unique_fd.h"
#include "dataplane/delay_line/delay_line.h"
#include "dataplane/delay_line/options.h"

namespace tiercast::delay_line {

// Totals of all lines since the start, except for longest_pause_ns.
struct Stats {
  std::int64_t time_ns = 0;         // CLOCK_MONOTONIC
  std::uint64_t frames = 0;         // frames that came out of a line
  std::uint64_t kernel_drops = 0;   // lost before they were read
  std::uint64_t send_errors = 0;    // refused by the kernel
  std::uint64_t late_over_1ms = 0;  // frames that came out more than 1 ms late
  std::int64_t late_max_ns = 0;
  // The longest time since the last Stats in which the loop did not turn. It turns at least every
  // 100 ms, so a longer time means that the process was stopped or had no CPU.
  std::int64_t longest_pause_ns = 0;
};

class DelayLines {
 public:
  // std::system_error names the interface that cannot be opened.
  explicit DelayLines(const std::vector<LineOption>& options);

  // Carries frames until `stop_fd` is readable. Calls `report` every second and at the end.
  void run(int stop_fd, const std::function<void(const Stats&)>& report);

 private:
  // An interface, and the line for the frames read from it.
  struct End {
    std::string name;
    UniqueFd socket;
    DelayLine line;
    End* peer = nullptr;
  };

  End& add_end(const std::string& name, std::int64_t delay_ns);
  void receive(End& end);
  void send_due(End& end);
  void set_timer();
  Stats take_stats();

  std::vector<std::unique_ptr<End>> ends_;
  UniqueFd epoll_;
  UniqueFd timer_;
  Stats stats_;
  TurnWatch turns_;
  std::int64_t next_report_ns_ = 0;

  static constexpr std::size_t kMaxFrame = 65'536;
  std::array<std::byte, kMaxFrame> buffer_;
};

}  // namespace tiercast::delay_line
