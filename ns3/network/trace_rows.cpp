// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/trace_rows.h"

#include <limits>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // null in a row

template <class T>
double figure(const std::optional<T>& value) {
  return value ? static_cast<double>(*value) : kNone;
}

template <class T>
double figure(T value) {
  return static_cast<double>(value);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

template <class T>
const T& checked(const std::string& at, const engine::Result<T>& result) {
  if (!result.ok()) throw ConfigError(at + ": " + result.status().message());
  return *result;
}

}  // namespace

TraceRows::TraceRows(VirtualNetwork& network, Records& records, const v1::Scenario& scenario)
    : network_(network), records_(records), scenario_(scenario) {
  for (const v1::SimulatedSwitch& one : scenario_.switches()) {
    for (const v1::StateRead& read : one.state()) {
      network_.process_of(one.name()).at(0, [this, &one, &read] { read_later(one.name(), read); });
    }
  }
}

void TraceRows::report() {
  for (const v1::SimulatedSwitch& one : scenario_.switches()) report(one);
}

void TraceRows::report(const v1::SimulatedSwitch& at) {
  trace::HopTrace* const trace = network_.trace_of(at.name());
  if (trace == nullptr) return;
  std::map<std::uint32_t, const std::string*> links;
  for (const v1::SimulatedPort& port : at.ports()) links[port.port()] = &port.link();
  for (const trace::Hop& hop : trace->take()) {
    const std::string lines = joined(hop.lines);
    const TextField texts[] = {
        {"flow", hop.packet.flow}, {"fate", hop.fate}, {"by", hop.by}, {"lines", lines}};
    std::vector<TraceField> fields = {
        {"port", figure(hop.port)},
        {"session", figure(hop.packet.session)},
        {"layer", figure(hop.packet.layer)},
        {"sequence", figure(hop.packet.sequence)},
        {"ip_id", figure(hop.packet.ip_id)},
        {"bytes", figure(hop.packet.ip_bytes)},
        {"found_packets", figure(hop.found_packets)},
        {"found_bytes", figure(hop.found_bytes)},
        {"left_packets", figure(hop.left_packets)},
        {"wait_ns", figure(hop.wait_ns)},
        {"transit_ns", figure(hop.transit_ns)},
        {"red_average", figure(hop.red_average)},
    };
    const std::vector<std::string>& names = trace->ports().at(hop.port).registers;
    std::vector<std::string> columns;
    columns.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      fields.push_back(
          {columns.emplace_back("register." + names[i]).c_str(), figure(hop.registers[i])});
    }
    records_.add(hop.arrival_ns, at.name(), "trace", fields, *links.at(hop.port), texts);
  }
}

void TraceRows::read_later(const std::string& at, const v1::StateRead& read) {
  read_state(at, read);
  LogicalProcess& process = network_.process_of(at);
  process.at(process.now() + read.every_ns(), [this, &at, &read] { read_later(at, read); });
}

void TraceRows::read_state(const std::string& at, const v1::StateRead& read) {
  const std::int64_t now = network_.process_of(at).now();
  const engine::Switch& from = network_.at(at);
  const bool is_register = read.has_register_();
  const TextField name[] = {{"name", is_register ? read.register_() : read.counter()}};
  for (const std::uint64_t index : read.indices()) {
    double value = kNone, packets = kNone, bytes = kNone;
    if (is_register) {
      value = 0;
      const auto cell = from.read_register(read.register_(), index);
      for (const char byte : checked(at, cell))
        value = value * 256 + static_cast<unsigned char>(byte);
    } else {
      const auto cell = from.read_counter(read.counter(), index);
      packets = figure(checked(at, cell).packets);
      bytes = figure(checked(at, cell).bytes);
    }
    records_.add(
        now, at, "state",
        std::to_array<TraceField>(
            {{"index", figure(index)}, {"value", value}, {"packets", packets}, {"bytes", bytes}}),
        read.link(), name);
  }
}

}  // namespace tiercast::ns3_runtime
