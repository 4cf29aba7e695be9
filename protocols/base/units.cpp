#include "protocols/base/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/quantity.h"

namespace tiercast {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// Units for output. bytes/s is accepted on input only.
constexpr Unit kRateUnits[] = {
    {"Gbit/s", 125e6}, {"Mbit/s", 125e3}, {"kbit/s", 125}, {"bit/s", 0.125}};
constexpr Unit kDurationUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"s", 1}};

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view valid) {
  throw ConfigError(std::string(what) + " '" + std::string(text) + "': write it like " +
                    std::string(valid));
}

template <std::size_t n>
std::string format_with_unit(double value, const Unit (&units)[n]) {
  // The largest unit that leaves at least 1 before the point, or else the smallest one.
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
  const auto bits = read_rate(text);
  if (!bits) refuse("rate", text, kRateForms);
  return Rate::bits_per_second(*bits);
}

Duration parse_duration(std::string_view text) {
  const auto ns = read_duration(text);
  if (!ns) refuse("duration", text, kDurationForms);
  if (*ns >= 9.2e18) return Duration::infinite();
  return Duration::nanoseconds(std::llround(*ns));
}

std::string format_rate(Rate rate) { return format_with_unit(rate.bytes_per_second(), kRateUnits); }

std::string format_duration(Duration duration) {
  return format_with_unit(duration.seconds(), kDurationUnits);
}

}  // namespace tiercast
