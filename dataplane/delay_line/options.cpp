#include "dataplane/delay_line/options.h"

#include <fmt/format.h>

#include <cmath>

#include "base/quantity.h"

namespace tiercast::delay_line {
namespace {

constexpr std::int64_t kMaxDelayNs = 60'000'000'000;
constexpr std::size_t kMaxInterfaceName = 15;  // IFNAMSIZ - 1

std::int64_t parse_delay(std::string_view text) {
  if (text == "0") return 0;
  const auto ns = read_duration(text);
  if (ns && *ns <= static_cast<double>(kMaxDelayNs)) return std::llround(*ns);
  throw OptionError(
      fmt::format("'{}' is not a delay; valid: {}, at most 60s; or 0", text, kDurationForms));
}

}  // namespace

LineOption parse_line(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    parts.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (parts.size() < 3 || parts.size() > 4)
    throw OptionError(fmt::format(
        "--line '{}': not of the form A,B,DELAY or A,B,DELAY-A-TO-B,DELAY-B-TO-A", text));
  LineOption line{std::string(parts[0]), std::string(parts[1]), 0, 0};
  for (const std::string& name : {line.a, line.b}) {
    if (name.empty() || name.size() > kMaxInterfaceName)
      throw OptionError(
          fmt::format("--line '{}': interface name '{}' does not have 1 to {} characters", text,
                      name, kMaxInterfaceName));
  }
  if (line.a == line.b)
    throw OptionError(
        fmt::format("--line '{}': both ends are '{}'; valid: two interfaces", text, line.a));
  try {
    line.a_to_b_ns = parse_delay(parts[2]);
    line.b_to_a_ns = parse_delay(parts.back());
  } catch (const OptionError& error) {
    throw OptionError(fmt::format("--line '{}': {}", text, error.what()));
  }
  return line;
}

}  // namespace tiercast::delay_line
