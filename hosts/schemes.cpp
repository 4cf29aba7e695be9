#include "hosts/schemes.h"

#include <nlohmann/json.hpp>

#include "protocols/core/registry.h"
#include "protocols/driver/lying_receiver.h"

namespace tiercast::hosts {

std::string schemes_as_json() {
  auto list = nlohmann::ordered_json::array();
  for (const Scheme& scheme : schemes()) {
    auto parameters = nlohmann::ordered_json::array();
    for (const ParameterInfo& info : scheme.parameters) {
      parameters.push_back({{"name", info.name},
                            {"default", info.fallback},
                            {"min", info.min},
                            {"max", info.max},
                            {"unit", info.unit},
                            {"whole", info.whole},
                            {"used_by", name(info.used_by)},
                            {"purpose", info.purpose},
                            {"source", info.source}});
    }
    auto lies = nlohmann::ordered_json::object();
    for (const Lie* lie : lies_of(scheme)) lies[std::string(lie->name)] = lie->means;
    list.push_back({{"name", scheme.name},
                    {"id", scheme.id},
                    {"layered", scheme.layered},
                    {"aggregated", scheme.aggregated},
                    {"lies", lies},
                    {"parameters", parameters},
                    {"records", scheme.records}});
  }
  return list.dump(2);
}

}  // namespace tiercast::hosts
