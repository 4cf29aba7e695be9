// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/scenario.h"

#include <google/protobuf/util/delimited_message_util.h>

#include "protocols/base/units.h"
#include "protocols/wire/wire.h"

namespace tiercast::ns3_runtime {
namespace {

void require(bool holds, const std::string& what, const char* valid) {
  if (!holds) throw ConfigError("scenario: " + what + "; valid: " + valid);
}

void check(const std::string& flow, const v1::Length& length) {
  const double mean = length.has_mean_ns() ? length.mean_ns() : length.mean_packets();
  require(mean > 0, flow + ": mean", "above 0");
  require(length.distribution() != v1::Length::DISTRIBUTION_UNSPECIFIED, flow + ": distribution",
          "CONSTANT, EXPONENTIAL, PARETO");
  require(length.distribution() != v1::Length::PARETO || length.shape() > 1, flow + ": shape",
          "above 1");
}

// For flows of either kind.
template <class Flow>
void check(const Flow& flow) {
  require(flow.port() > 0 && flow.port() < 1 << 16, flow.name() + ": port", "1 to 65535");
  if (!flow.has_on_off()) return;
  check(flow.name(), flow.on_off().on());
  check(flow.name(), flow.on_off().off());
  require(flow.on_off().off().has_mean_ns(), flow.name() + ": off", "a mean in time");
}

}  // namespace

v1::Scenario read_scenario(google::protobuf::io::ZeroCopyInputStream& input) {
  v1::Scenario result;
  if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&result, &input, nullptr)) {
    throw ConfigError("scenario: no message tiercast.v1.Scenario behind its length");
  }
  require(!result.program().empty(), "program", "the path of a compiled P4 program");
  require(result.control_delay_ns() > 0, "control_delay_ns", "above 0");
  for (const v1::SimulatedSession& one : result.sessions()) {
    require(one.session().session() <= wire::kMaxSession,
            "session " + std::to_string(one.session().session()), "0 to 32767");
  }
  for (const v1::SimulatedSwitch& one : result.switches()) {
    for (const v1::PortTrace& port : one.traces()) {
      require(port.share() > 0 && port.share() <= 1, one.name() + ": share", "above 0, to 1");
    }
    for (const v1::StateRead& read : one.state()) {
      require(read.every_ns() > 0, one.name() + ": every_ns", "above 0");
      require(read.array_case() != v1::StateRead::ARRAY_NOT_SET, one.name() + ": array",
              "register, counter");
    }
  }
  for (const v1::TcpFlow& flow : result.tcp()) {
    check(flow);
    const v1::TcpSender& sender = flow.sender();
    require(sender.initial_window_packets() > 0, flow.name() + ": initial_window_packets",
            "1 or more");
    require(sender.clock_tick_ns() >= 0, flow.name() + ": clock_tick_ns", "0 or more");
    require(sender.min_timeout_ns() > 0, flow.name() + ": min_timeout_ns", "above 0");
    require(sender.connect_timeout_ns() > 0, flow.name() + ": connect_timeout_ns", "above 0");
    require(sender.data_retries() > 0, flow.name() + ": data_retries", "1 or more");
  }
  for (const v1::UdpFlow& flow : result.udp()) {
    check(flow);
    require(flow.rate_bps() > 0, flow.name() + ": rate_bps", "above 0");
  }
  return result;
}

}  // namespace tiercast::ns3_runtime
