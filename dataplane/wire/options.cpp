#include "dataplane/wire/options.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace tiercast::wiring {
namespace {

constexpr std::int64_t kMaxDelayNs = 60'000'000'000;
constexpr std::size_t kMaxInterfaceName = 15;  // IFNAMSIZ - 1

std::int64_t parse_delay(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc() && value == 0 && unit.empty()) return 0;
  for (const auto& [name, ns] : kUnits) {
    if (error != std::errc() || unit != name) continue;
    if (value >= 0 && value * ns <= static_cast<double>(kMaxDelayNs))
      return static_cast<std::int64_t>(value * ns);
  }
  throw OptionError(
      fmt::format("'{}' is not a delay; valid: 0, or up to 60s in ns, us, ms, s", text));
}

}  // namespace

WireOption parse_wire(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    parts.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (parts.size() < 3 || parts.size() > 4)
    throw OptionError(fmt::format(
        "--wire '{}': not of the form A,B,DELAY or A,B,DELAY-A-TO-B,DELAY-B-TO-A", text));
  WireOption wire{std::string(parts[0]), std::string(parts[1]), 0, 0};
  for (const std::string& name : {wire.a, wire.b}) {
    if (name.empty() || name.size() > kMaxInterfaceName)
      throw OptionError(
          fmt::format("--wire '{}': interface name '{}' does not have 1 to {} characters", text,
                      name, kMaxInterfaceName));
  }
  if (wire.a == wire.b)
    throw OptionError(
        fmt::format("--wire '{}': both ends are '{}'; valid: two interfaces", text, wire.a));
  try {
    wire.a_to_b_ns = parse_delay(parts[2]);
    wire.b_to_a_ns = parse_delay(parts.back());
  } catch (const OptionError& error) {
    throw OptionError(fmt::format("--wire '{}': {}", text, error.what()));
  }
  return wire;
}

}  // namespace tiercast::wiring
