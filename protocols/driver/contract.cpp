#include "protocols/driver/contract.h"

#include <algorithm>
#include <cmath>
#include <system_error>

namespace tiercast {

void Contract::check_record(std::string_view kind, std::span<const TraceField> fields) const {
  if (kind != "subscription" &&
      std::ranges::find(scheme_->records, kind) == scheme_->records.end()) {
    std::string valid = "subscription";
    for (const std::string_view record : scheme_->records) {
      valid.append(", ").append(record);
    }
    refuse("trace: '" + std::string(kind) + "' is not among the scheme's records; valid: " + valid);
  }
  if (fields.size() > kMaxTraceFields) {
    refuse("trace: '" + std::string(kind) + "' has " + std::to_string(fields.size()) +
           " fields; valid: at most " + std::to_string(kMaxTraceFields));
  }
  for (const TraceField& field : fields) {
    if (!std::isnan(field.value)) continue;
    refuse("trace: '" + std::string(kind) + "' has no number in its field '" +
           std::string(field.name) + "'");
  }
}

void Contract::refuse(std::string_view what) const {
  throw ContractError(std::string(scheme_->name) + ", session " + std::to_string(session_) + ": " +
                      std::string(what));
}

void Contract::explain_thrown(const char* call) const {
  try {
    throw;
  } catch (const ContractError&) {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(std::string(call) + " threw: " + error.what());
  }
}

void Contract::refuse_layer(const char* call, Rank layer) const {
  refuse(std::string(call) + ": layer " + std::to_string(layer) + "; valid: 0 to " +
         std::to_string(layers_ - 1));
}

void Contract::refuse_rate(Rank layer, Rate rate) const {
  refuse("set_rate: layer " + std::to_string(layer) + " to " +
         std::to_string(rate.bytes_per_second()) + " bytes/s; valid: 0 or more, finite");
}

void Contract::refuse_written(Rank layer, std::size_t written, std::size_t bytes) const {
  refuse("write_data: " + std::to_string(written) + " bytes of headers in a packet of layer " +
         std::to_string(layer) + "; valid: 0 to " + std::to_string(bytes) + ", its length");
}

}  // namespace tiercast
