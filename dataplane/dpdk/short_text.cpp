#include "dataplane/dpdk/short_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tiercast::dpdk {

std::string short_number(double value) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, letter] : kUnits) {
    if (value >= unit) {
      const double shown = value / unit;
      return fmt::format("{:.{}f}{}", shown, shown < 10 ? 2 : shown < 100 ? 1 : 0, letter);
    }
  }
  return fmt::format("{:.0f}", value);
}

std::string short_time(std::int64_t nanoseconds) {
  const auto ns = static_cast<double>(nanoseconds);
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
  return fmt::format("{:.1f} ms", ns / 1e6);
}

void RedrawnText::show(const std::string& text, std::FILE* terminal) {
  // Move up to the first line of the last text, and clear from there to the end of the screen.
  if (lines_ > 0) fmt::print(terminal, "\033[{}F\033[J", lines_);
  fmt::print(terminal, "{}", text);
  std::fflush(terminal);
  lines_ = static_cast<unsigned>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace tiercast::dpdk
