#include "protocols/core/registry.h"

#include <string>

#include "protocols/schemes/ermcc/ermcc.h"
#include "protocols/schemes/mlda/mlda.h"
#include "protocols/schemes/mdpcc/mdpcc.h"
#include "protocols/schemes/pgmcc/pgmcc.h"
#include "protocols/schemes/plm/plm.h"
#include "protocols/schemes/rla/rla.h"
#include "protocols/schemes/rlc/rlc.h"
#include "protocols/schemes/rlm/rlm.h"
#include "protocols/schemes/sim/sim.h"
#include "protocols/schemes/tfmcc/tfmcc.h"

namespace tiercast {

std::span<const Scheme> schemes() {
  static const Scheme kSchemes[] = {
      sim::scheme(),
      ermcc::scheme(),
      mlda::scheme(),
      mdpcc::scheme(),
      rla::scheme(),
      tfmcc::scheme(),
      pgmcc::scheme(),
      rlm::scheme(),
      rlc::scheme(),
      plm::scheme(),
  };
  return kSchemes;
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
