#include "protocols/core/registry.h"

#include <string>

namespace tiercast {

const Scheme& find_scheme(std::string_view name) {
  std::string valid;
  for (const Scheme& scheme : schemes()) {
    if (scheme.name == name) return scheme;
    valid += (valid.empty() ? "" : ", ") + std::string(scheme.name);
  }
  throw ConfigError("unknown scheme '" + std::string(name) + "'; valid: " + valid);
}

}  // namespace tiercast
