// Strong types for time and rate, and their text forms ("6Mbit/s", "5ms", "50p").
//
// Time and Duration are whole nanoseconds (signed 64 bit, about +-292 years). Rate is bytes per
// second. Bad text throws ConfigError, which names the text and the accepted forms.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/config_error.h"

namespace tiercast {

class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration nanoseconds(std::int64_t ns) { return Duration(ns); }
  static constexpr Duration microseconds(std::int64_t us) { return Duration(us * 1000); }
  static constexpr Duration milliseconds(std::int64_t ms) { return Duration(ms * 1'000'000); }
  // Rounded to the nearest nanosecond; saturates at infinite(). NaN gives zero.
  static constexpr Duration seconds(double s) {
    if (s != s) return Duration(0);
    const double ns = s * 1e9;
    if (ns >= 9.2e18) return infinite();
    if (ns <= -9.2e18) return Duration(-std::numeric_limits<std::int64_t>::max());
    return Duration(static_cast<std::int64_t>(ns + (ns < 0 ? -0.5 : 0.5)));
  }
  static constexpr Duration zero() { return Duration(0); }
  static constexpr Duration infinite() {
    return Duration(std::numeric_limits<std::int64_t>::max());
  }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr std::int64_t us() const { return ns_ / 1000; }
  constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return Duration(ns_ + other.ns_); }
  constexpr Duration operator-(Duration other) const { return Duration(ns_ - other.ns_); }
  constexpr Duration operator*(double factor) const { return seconds(seconds() * factor); }
  constexpr double operator/(Duration other) const {
    return static_cast<double>(ns_) / static_cast<double>(other.ns_);
  }

 private:
  explicit constexpr Duration(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

// An instant of the caller's monotonic clock (CLOCK_MONOTONIC, or a simulator's virtual time).
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time nanoseconds(std::int64_t ns) { return Time(ns); }
  static constexpr Time zero() { return Time(0); }
  // Later than every instant: "no timer set".
  static constexpr Time never() { return Time(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }
  constexpr bool is_never() const { return ns_ == never().ns_; }

  constexpr auto operator<=>(const Time&) const = default;
  constexpr Duration operator-(Time other) const { return Duration::nanoseconds(ns_ - other.ns_); }
  constexpr Time operator-(Duration d) const { return Time(ns_ - d.ns()); }
  // Saturates at never().
  constexpr Time operator+(Duration d) const {
    if (d.ns() > 0 && ns_ > std::numeric_limits<std::int64_t>::max() - d.ns()) return never();
    return Time(ns_ + d.ns());
  }

 private:
  explicit constexpr Time(std::int64_t ns) : ns_(ns) {}
  std::int64_t ns_ = 0;
};

// Bytes per second. The owner decides which bytes count; throughout the protocols it is IP bytes.
class Rate {
 public:
  constexpr Rate() = default;
  static constexpr Rate bytes_per_second(double v) { return Rate(v); }
  static constexpr Rate bits_per_second(double v) { return Rate(v / 8); }
  static constexpr Rate kbit_per_second(double v) { return Rate(v * 125); }
  static constexpr Rate mbit_per_second(double v) { return Rate(v * 125'000); }
  static constexpr Rate zero() { return Rate(0); }

  constexpr double bytes_per_second() const { return value_; }
  constexpr double bits_per_second() const { return value_ * 8; }
  constexpr double mbit_per_second() const { return value_ / 125'000; }

  constexpr auto operator<=>(const Rate&) const = default;
  constexpr Rate operator+(Rate other) const { return Rate(value_ + other.value_); }
  constexpr Rate operator-(Rate other) const { return Rate(value_ - other.value_); }
  constexpr Rate operator*(double factor) const { return Rate(value_ * factor); }
  constexpr double operator/(Rate other) const { return value_ / other.value_; }
  constexpr Rate& operator+=(Rate other) { return *this = *this + other; }

  // Time to send `bytes` at this rate; infinite at rate zero or below.
  constexpr Duration time_for(double bytes) const {
    return value_ > 0 ? Duration::seconds(bytes / value_) : Duration::infinite();
  }

 private:
  explicit constexpr Rate(double v) : value_(v) {}
  double value_ = 0;
};

// "6Mbit/s", "300kbit/s", "1.5Gbit/s", "800bit/s", "2500B/s". Never negative.
Rate parse_rate(std::string_view text);
// "5ms", "1.5s", "200us", "30ns". Never negative.
Duration parse_duration(std::string_view text);

// The shortest of the forms above that shows at most 6 significant digits.
std::string format_rate(Rate rate);
std::string format_duration(Duration duration);

// A finite decimal number that takes up the whole text. Anything else throws ConfigError.
double parse_number(std::string_view text);

}  // namespace tiercast
