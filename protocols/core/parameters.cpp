#include "protocols/core/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tiercast {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string shown(const ParameterInfo& info, double value) {
  if (info.unit == "bit/s") return format_rate(Rate::bits_per_second(value));
  if (info.unit == "s") return format_duration(Duration::seconds(value));
  return shown(value);
}

double parse_value(const ParameterInfo& info, std::string_view text) {
  try {
    const bool has_unit =
        !text.empty() && (text.back() < '0' || text.back() > '9') && text.back() != '.';
    if (has_unit && info.unit == "bit/s") return parse_rate(text).bits_per_second();
    if (has_unit && info.unit == "s") return parse_duration(text).seconds();
    return parse_number(text);
  } catch (const ConfigError& error) {
    throw ConfigError("parameter " + std::string(info.name) + ": " + error.what());
  }
}

}  // namespace

std::string_view name(UsedBy used_by) {
  switch (used_by) {
    case UsedBy::kSender: return "sender";
    case UsedBy::kReceiver: return "receiver";
    case UsedBy::kBoth: return "both";
  }
  return "";
}

Parameters::Parameters(std::span<const ParameterInfo> infos) : infos_(infos) {
  values_.reserve(infos.size());
  for (const ParameterInfo& info : infos) values_.push_back(info.fallback);
}

std::size_t Parameters::index_of(std::string_view name) const {
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].name == name) return i;
  }
  std::string valid;
  for (const ParameterInfo& info : infos_) {
    valid += (valid.empty() ? "" : ", ") + std::string(info.name);
  }
  throw ConfigError("unknown parameter '" + std::string(name) +
                    "'; valid: " + (valid.empty() ? "none" : valid));
}

void Parameters::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw ConfigError("parameter '" + std::string(assignment) + "': write it as name=value");
  }
  const std::string_view name = assignment.substr(0, equals);
  set(name, parse_value(infos_[index_of(name)], assignment.substr(equals + 1)));
}

void Parameters::set(std::string_view name, double value) {
  const std::size_t i = index_of(name);
  const ParameterInfo& info = infos_[i];
  const auto refuse = [&](const std::string& why) {
    throw ConfigError("parameter " + std::string(name) + " = " + shown(value) + " " + why +
                      ": valid " + shown(info.min) + " to " + shown(info.max) +
                      (info.unit.empty() ? "" : " " + std::string(info.unit)));
  };
  // Negated, so that NaN is refused as well.
  if (!(value >= info.min && value <= info.max)) refuse("is out of range");
  if (info.whole && value != std::floor(value)) refuse("is not a whole number");
  values_[i] = value;
}

double Parameters::get(std::string_view name) const { return values_[index_of(name)]; }

void Parameters::require_rising(std::initializer_list<std::string_view> names) const {
  const auto below = [this](std::string_view a, std::string_view b) { return get(a) < get(b); };
  if (std::is_sorted(names.begin(), names.end(), below)) return;
  std::string all;
  for (const std::string_view name : names) {
    const std::size_t i = index_of(name);
    all += (all.empty() ? "" : ", ") + std::string(name) + " " + shown(infos_[i], values_[i]);
  }
  throw ConfigError(all + ": each must be at least the one before");
}

}  // namespace tiercast
