// The named numbers of a scheme: those that a paper leaves open or that an experiment may change.
//
// A scheme lists ParameterInfo; a Parameters object holds one value for each of them and checks
// names and ranges as they are set ("sim.delta=0.875"). Used while a session is set up, not while
// it runs.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast {

// Which of a scheme's cores reads a parameter.
enum class UsedBy { kSender, kReceiver, kBoth };
std::string_view name(UsedBy used_by);  // "sender", "receiver", "both"

struct ParameterInfo {
  std::string_view name;  // "sim.delta"
  double fallback;        // the default, in `unit`
  double min;             // inclusive
  double max;             // inclusive
  std::string_view unit;  // "bit/s", "s", "packets", "rounds", ... or "" for a plain number
  UsedBy used_by;
  std::string_view purpose;  // one line
  std::string_view source;   // "SIM 3.1", "PROTOCOLS 3.2", or how it was calibrated
  bool whole = false;        // an integer: a count, a switch (0 or 1) or a mode
};

// The schemes in this tree state each parameter once, in a list <scheme>/parameters.inc of entries
//
//     PARAMETER(type, name, fallback, min, max, unit, used_by, purpose, source)
//
// The scheme's settings.h makes the members of `Settings` from this list; its settings.cpp makes
// the ParameterInfo and the code that sets the members. `type` is what the cores calculate with:
// double, Rate ("bit/s"), Duration ("s"), bool, an unsigned integer or an enumeration. The tables
// in docs/protocols/ are made from the list too (`tiercast schemes NAME --markdown`).
template <class T>
constexpr ParameterInfo parameter(std::string_view name, double fallback, double min, double max,
                                  std::string_view unit, UsedBy used_by, std::string_view purpose,
                                  std::string_view source) {
  constexpr bool kWhole = std::is_integral_v<T> || std::is_enum_v<T>;
  return {name, fallback, min, max, unit, used_by, purpose, source, kWhole};
}

class Parameters {
 public:
  Parameters() = default;
  // `infos` must outlive the object; schemes keep theirs in static storage.
  explicit Parameters(std::span<const ParameterInfo> infos);

  // Takes "name=value". The value is a number in the parameter's unit. If that unit is "bit/s" or
  // "s", the forms of units.h ("20kbit/s", "80ms") are accepted too. ConfigError: no '=', an
  // unknown name (the text lists the valid ones), not a number, out of range (the text gives the
  // range), or a fraction where a whole number is needed.
  void set(std::string_view assignment);
  void set(std::string_view name, double value);

  // ConfigError for an unknown name.
  double get(std::string_view name) const;

  // The value as the type in the scheme's list: a Rate from bit/s, a Duration from s, a bool from 0
  // or 1.
  template <class T>
  T get(std::string_view name) const {
    const double value = get(name);
    if constexpr (std::is_same_v<T, Rate>) {
      return Rate::bits_per_second(value);
    } else if constexpr (std::is_same_v<T, Duration>) {
      return Duration::seconds(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      return value != 0;
    } else {
      return static_cast<T>(value);
    }
  }

  // ConfigError, which gives the values, if one of these is smaller than the one before it.
  void require_rising(std::initializer_list<std::string_view> names) const;

  std::span<const ParameterInfo> infos() const { return infos_; }

 private:
  std::size_t index_of(std::string_view name) const;

  std::span<const ParameterInfo> infos_;
  std::vector<double> values_;
};

}  // namespace tiercast
