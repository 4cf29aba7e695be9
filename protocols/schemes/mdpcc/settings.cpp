#include "protocols/schemes/mdpcc/settings.h"

#include <algorithm>

#include "protocols/common/loss_history.h"
#include "protocols/core/session_config.h"
#include "protocols/schemes/mdpcc/messages.h"

namespace tiercast::mdpcc {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("mdpcc." #name, __VA_ARGS__),
#include "protocols/schemes/mdpcc/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("mdpcc." #name);
#include "protocols/schemes/mdpcc/parameters.inc"
#undef PARAMETER
  p.require_rising({"mdpcc.initial_rate", "mdpcc.max_rate"});
  return s;
}

TcpPath Settings::path(std::uint32_t packet_size, Duration rtt, Duration timeout) const {
  TcpPath path;
  path.packet_size = packet_size;
  path.rtt = std::max(rtt, kMinRtt);
  path.timeout = std::max({timeout, min_timeout, kMinRtt});
  return path;
}

}  // namespace tiercast::mdpcc
