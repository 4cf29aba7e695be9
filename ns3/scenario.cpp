// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/scenario.h"

#include <nlohmann/json.hpp>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

using Json = nlohmann::json;

std::uint32_t address(const std::string& text) {
  std::uint32_t value = 0;
  std::uint32_t part = 0;
  unsigned dots = 0;
  for (const char c : text + ".") {
    if (c == '.') {
      if (part > 255) throw ConfigError("'" + text + "' is no IPv4 address");
      value = value << 8 | part;
      part = 0;
      ++dots;
    } else if (c >= '0' && c <= '9') {
      part = part * 10 + static_cast<std::uint32_t>(c - '0');
    } else {
      throw ConfigError("'" + text + "' is no IPv4 address");
    }
  }
  if (dots != 4) throw ConfigError("'" + text + "' is no IPv4 address");
  return value;
}

wire::MacAddress mac(const std::string& text) {
  if (text.size() != 17) throw ConfigError("'" + text + "' is no MAC address");
  wire::MacAddress result{};
  for (std::size_t i = 0; i < 6; ++i) {
    result[i] = static_cast<std::byte>(std::stoul(text.substr(3 * i, 2), nullptr, 16));
  }
  return result;
}

PortSpec port(const Json& json) {
  PortSpec result;
  result.number = json.at("port");
  result.config.rate_bps = json.at("rate_bps");
  result.config.queue_packets = json.at("queue_packets");
  result.config.queue_bytes = json.at("queue_bytes");
  result.config.delay_ns = json.at("delay_ns");
  result.config.rx_delay_ns = json.at("rx_delay_ns");
  result.config.overhead_bytes = json.at("overhead_bytes");
  result.config.fair_queueing = json.value("fair_queueing", false);
  result.peer = {json.at("peer"), json.at("peer_port")};
  result.link = json.at("link");
  result.recorded = json.value("recorded", true);
  return result;
}

HostSpec host(const Json& json) {
  HostSpec result;
  result.name = json.at("name");
  result.number = json.at("number");
  result.address = address(json.at("address"));
  result.gateway = address(json.at("gateway"));
  result.mac = mac(json.at("mac"));
  result.gateway_mac = mac(json.at("gateway_mac"));
  result.switch_name = json.at("switch");
  result.switch_port = json.at("switch_port");
  return result;
}

SessionSpec session(const Json& json) {
  SessionSpec result;
  result.scheme = json.at("scheme");
  result.session = json.at("session");
  result.layers = json.at("layers");
  result.packet_size = json.at("packet_size");
  result.seed = json.at("seed");
  result.start_ns = json.at("start_ns");
  result.suffix = json.at("suffix");
  result.sender = json.at("sender");
  for (const Json& one : json.at("receivers")) {
    result.receivers.push_back({one.at("host"), one.at("start_ns"), one.value("recorded", true)});
  }
  result.assignments = json.at("set");
  return result;
}

LengthSpec length(const Json& json) {
  LengthSpec result;
  const std::string distribution = json.at("distribution");
  if (distribution == "constant") {
    result.distribution = LengthSpec::Distribution::kConstant;
  } else if (distribution == "exponential") {
    result.distribution = LengthSpec::Distribution::kExponential;
  } else if (distribution == "pareto") {
    result.distribution = LengthSpec::Distribution::kPareto;
    result.shape = json.at("shape");
    if (!(result.shape > 1)) throw ConfigError("scenario: shape: valid: above 1");
  } else {
    throw ConfigError("scenario: distribution '" + distribution +
                      "'; valid: constant, exponential, pareto");
  }
  if (json.contains("mean_packets")) {
    result.unit = LengthSpec::Unit::kPackets;
    result.mean = json.at("mean_packets");
  } else {
    result.mean = json.at("mean_ns");
  }
  if (!(result.mean > 0)) throw ConfigError("scenario: mean: valid: above 0");
  return result;
}

std::optional<OnOffSpec> on_off(const Json& json) {
  if (!json.contains("on")) return std::nullopt;
  return OnOffSpec{length(json.at("on")), length(json.at("off"))};
}

// What flows of either kind have.
template <typename Flow>
Flow flow(const Json& json) {
  Flow result;
  result.name = json.at("name");
  result.from = json.at("from");
  result.to = json.at("to");
  result.start_ns = json.at("start_ns");
  result.stop_ns = json.at("stop_ns");
  result.packet_size = json.at("packet_size");
  result.on_off = on_off(json);
  return result;
}

TcpSpec tcp_flow(const Json& json) {
  auto result = flow<TcpSpec>(json);
  result.congestion = json.at("congestion");
  result.sack = json.at("sack");
  result.ecn = json.at("ecn");
  result.delayed_acks = json.at("delayed_acks");
  result.overhead_ns = json.at("overhead_ns");
  result.window_packets = json.at("window_packets");
  return result;
}

UdpSpec udp_flow(const Json& json) {
  auto result = flow<UdpSpec>(json);
  result.rate_bps = json.at("rate_bps");
  if (result.rate_bps < 1) throw ConfigError("scenario: rate_bps: valid: above 0");
  return result;
}

EventSpec event(const Json& json) {
  EventSpec result;
  result.at_ns = json.at("at_ns");
  result.switch_name = json.at("switch");
  result.port = json.at("port");
  result.rate_bps = json.value("rate_bps", std::int64_t{-1});
  result.queue_packets = json.value("queue_packets", std::int64_t{-1});
  result.queue_bytes = json.value("queue_bytes", std::int64_t{-1});
  result.delay_ns = json.value("delay_ns", std::int64_t{-1});
  result.rx_delay_ns = json.value("rx_delay_ns", std::int64_t{-1});
  return result;
}

}  // namespace

Scenario Scenario::parse(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Scenario result;
    result.program = json.at("program");
    result.seed = json.at("seed");
    result.duration_ns = json.at("duration_ns");
    result.record_every_ns = json.at("record_every_ns");
    for (const Json& one : json.at("switches")) {
      SwitchSpec spec;
      spec.name = one.at("name");
      for (const Json& p : one.at("ports")) spec.ports.push_back(port(p));
      result.switches.push_back(std::move(spec));
    }
    for (const Json& one : json.at("hosts")) result.hosts.push_back(host(one));
    for (const Json& one : json.at("sessions")) result.sessions.push_back(session(one));
    for (const Json& one : json.at("tcp")) result.tcp.push_back(tcp_flow(one));
    for (const Json& one : json.at("udp")) result.udp.push_back(udp_flow(one));
    for (const Json& one : json.at("members")) {
      result.members.push_back(
          {one.at("at_ns"), one.at("session"), one.at("host"), one.at("joins")});
    }
    for (const Json& one : json.at("events")) result.events.push_back(event(one));
    return result;
  } catch (const Json::exception& error) {
    throw ConfigError(std::string("scenario: ") + error.what());
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("scenario: not a number: ") + error.what());
  }
}

}  // namespace tiercast::ns3_runtime
