#include "protocols/base/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace tiercast {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kRateUnits[] = {
    {"Gbit/s", 125e6}, {"Mbit/s", 125e3}, {"kbit/s", 125}, {"bit/s", 0.125}, {"B/s", 1}};
constexpr Unit kDurationUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"s", 1}};

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view valid) {
  throw ConfigError(std::string(what) + " '" + std::string(text) + "': write it like " +
                    std::string(valid));
}

// The number before one of `units`; empty if the text is anything else, negative or not finite.
template <std::size_t n>
bool parse_with_unit(std::string_view text, const Unit (&units)[n], double& out) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.name.size());
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) continue;
    if (!std::isfinite(value) || value < 0) return false;
    out = value * unit.factor;
    return true;
  }
  return false;
}

template <std::size_t n>
std::string format_with_unit(double value, const Unit (&units)[n]) {
  // The largest unit that leaves at least 1 before the point; the smallest one otherwise.
  const Unit* best = nullptr;
  const Unit* smallest = &units[0];
  for (const Unit& unit : units) {
    if (unit.factor < smallest->factor) smallest = &unit;
    if (std::abs(value) >= unit.factor && (best == nullptr || unit.factor > best->factor)) {
      best = &unit;
    }
  }
  if (best == nullptr) best = smallest;
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value / best->factor);
  return std::string(text) + std::string(best->name);
}

}  // namespace

double parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    refuse("number", text, "0.875, 3 or 1e-3");
  }
  return value;
}

Rate parse_rate(std::string_view text) {
  double value = 0;
  if (!parse_with_unit(text, kRateUnits, value)) {
    refuse("rate", text, "6Mbit/s, 300kbit/s, 1.5Gbit/s, 800bit/s or 2500B/s");
  }
  return Rate::bytes_per_second(value);
}

Duration parse_duration(std::string_view text) {
  double value = 0;
  if (!parse_with_unit(text, kDurationUnits, value)) {
    refuse("duration", text, "5ms, 1.5s, 200us or 30ns");
  }
  return Duration::seconds(value);
}

QueueLimit parse_queue_limit(std::string_view text) {
  constexpr std::string_view kValid = "50p, 30000B or 50p/30000B";
  QueueLimit limit;
  for (std::string_view rest = text;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const std::string_view unit(end, part.data() + part.size());
    if (error != std::errc() || value == 0) refuse("queue", text, kValid);
    if (unit == "p" && limit.packets == 0 && value <= 0xffffffff) {
      limit.packets = static_cast<std::uint32_t>(value);
    } else if (unit == "B" && limit.bytes == 0) {
      limit.bytes = value;
    } else {
      refuse("queue", text, kValid);
    }
    if (slash == std::string_view::npos) return limit;
    rest.remove_prefix(slash + 1);
  }
}

std::string format_rate(Rate rate) {
  // Bits are what people read; bytes/s is an input form only.
  constexpr Unit kBits[] = {
      {"Gbit/s", 125e6}, {"Mbit/s", 125e3}, {"kbit/s", 125}, {"bit/s", 0.125}};
  return format_with_unit(rate.bytes_per_second(), kBits);
}

std::string format_duration(Duration duration) {
  return format_with_unit(duration.seconds(), kDurationUnits);
}

}  // namespace tiercast
