#include "protocols/core/registry.h"

#include <set>
#include <string>

namespace tiercast {
namespace {

// What is wrong with the scheme of a folder; empty if nothing is.
std::string fault(std::string_view folder, const Scheme& scheme) {
  if (scheme.name != folder) {
    return "its name is '" + std::string(scheme.name) + "'; valid: that of its folder";
  }
  const std::string prefix = std::string(folder) + ".";
  std::set<std::string_view> seen;
  for (const ParameterInfo& info : scheme.parameters) {
    const std::string parameter = "parameter '" + std::string(info.name) + "'";
    if (!info.name.starts_with(prefix)) return parameter + "; valid: " + prefix + "...";
    if (!seen.insert(info.name).second) return parameter + " is there twice; valid: once";
    try {
      Parameters({&info, 1}).set(info.name, info.fallback);
    } catch (const ConfigError& error) {
      return std::string("its default: ") + error.what();
    }
  }
  for (const std::string_view kind : scheme.records) {
    if (kind.starts_with(prefix)) continue;
    return "record '" + std::string(kind) + "'; valid: " + prefix + "...";
  }
  if (scheme.make_sender == nullptr) return "make_sender is missing";
  if (scheme.make_receiver == nullptr) return "make_receiver is missing";
  return "";
}

}  // namespace

Scheme checked(std::string_view folder, const Scheme& scheme) {
  if (const std::string said = fault(folder, scheme); !said.empty()) {
    throw ConfigError("scheme " + std::string(folder) + ": " + said);
  }
  return scheme;
}

const Scheme& find_scheme(std::string_view name) {
  std::string valid;
  for (const Scheme& scheme : schemes()) {
    if (scheme.name == name) return scheme;
    valid += (valid.empty() ? "" : ", ") + std::string(scheme.name);
  }
  throw ConfigError("unknown scheme '" + std::string(name) + "'; valid: " + valid);
}

}  // namespace tiercast
