#include "base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstddef>

namespace tiercast {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// A unit must come before any unit whose name is the end of its own.
constexpr Unit kRateUnits[] = {
    {"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}, {"B/s", 8}};
constexpr Unit kDurationUnits[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}};

// A number that takes up the whole text.
template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <std::size_t n>
std::optional<double> read(std::string_view text, const Unit (&units)[n]) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = read_number<double>(text.substr(0, text.size() - unit.name.size()));
    if (!value) continue;
    if (!std::isfinite(*value) || *value < 0) return std::nullopt;
    return *value * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> read_rate(std::string_view text) { return read(text, kRateUnits); }
std::optional<double> read_duration(std::string_view text) { return read(text, kDurationUnits); }

std::optional<QueueBounds> read_queue(std::string_view text) {
  QueueBounds bounds;
  for (std::string_view rest = text;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.ends_with('p') && !bounds.packets) {
      bounds.packets = read_number<std::uint32_t>(part.substr(0, part.size() - 1));
      if (!bounds.packets) return std::nullopt;
    } else if (part.ends_with('B') && !bounds.bytes) {
      bounds.bytes = read_number<std::uint64_t>(part.substr(0, part.size() - 1));
      if (!bounds.bytes) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (slash == std::string_view::npos) return bounds;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace tiercast
