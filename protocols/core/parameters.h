// The named numbers of a scheme that a paper leaves open or an experiment may change.
//
// A scheme lists ParameterInfo; a Parameters object holds one value for each of them and checks
// names and ranges as they are set ("sim.delta=0.875"). Used while a session is set up, not while
// it runs.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast {

struct ParameterInfo {
  std::string_view name;     // "sim.delta"
  double fallback;           // the default, in `unit`
  double min;                // inclusive
  double max;                // inclusive
  std::string_view unit;     // "bit/s", "s", "packets", "rounds", ... or "" for a plain number
  std::string_view purpose;  // one line
  std::string_view source;   // "SIM 3.1", "PROTOCOLS 3.2", or how it was calibrated
};

class Parameters {
 public:
  Parameters() = default;
  // `infos` must outlive the object (schemes keep theirs in static storage).
  explicit Parameters(std::span<const ParameterInfo> infos);

  // "name=value". The value is a number in the parameter's unit; where that unit is "bit/s" or "s"
  // the forms of units.h ("20kbit/s", "80ms") are taken too. ConfigError: no '=', an unknown name
  // (lists the valid ones), not a number, out of range (gives it).
  void set(std::string_view assignment);
  void set(std::string_view name, double value);

  // ConfigError for an unknown name. `rate` is for parameters in bit/s, `time` for those in s.
  double get(std::string_view name) const;
  Rate rate(std::string_view name) const { return Rate::bits_per_second(get(name)); }
  Duration time(std::string_view name) const { return Duration::seconds(get(name)); }
  unsigned count(std::string_view name) const { return static_cast<unsigned>(get(name)); }
  bool on(std::string_view name) const { return get(name) >= 0.5; }

  // ConfigError, with their values, if one is smaller than that before it.
  void require_rising(std::initializer_list<std::string_view> names) const;

  std::span<const ParameterInfo> infos() const { return infos_; }

 private:
  std::size_t index_of(std::string_view name) const;

  std::span<const ParameterInfo> infos_;
  std::vector<double> values_;
};

}  // namespace tiercast
