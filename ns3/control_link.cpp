// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/control_link.h"

#include <ns3/simulator.h>

#include <nlohmann/json.hpp>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

using Json = nlohmann::json;

engine::Bytes bytes(const std::string& hex) {
  engine::Bytes result;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    result.push_back(static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return result;
}

engine::TableEntry entry(const Json& update) {
  engine::TableEntry result;
  for (const Json& field : update.at("match")) {
    if (field.is_array()) {
      result.match.push_back(engine::FieldMatch::lpm(bytes(field.at(0)), field.at(1)));
    } else {
      result.match.push_back(engine::FieldMatch::exact(bytes(field)));
    }
  }
  result.action.name = update.at("action");
  for (const Json& argument : update.at("arguments")) {
    result.action.arguments.push_back(bytes(argument));
  }
  return result;
}

engine::Status write_entry(engine::Switch& at, const std::string& op, const Json& update) {
  const std::string table = update.at("table");
  if (op == "insert") return at.insert_entry(table, entry(update));
  if (op == "modify") return at.modify_entry(table, entry(update));
  return at.delete_entry(table, entry(update));
}

engine::Status write_group(engine::Switch& at, const std::string& op, const Json& update) {
  const std::uint32_t group = update.at("group");
  std::vector<engine::Replica> replicas;
  for (const Json& port : update.at("ports")) replicas.push_back({port.get<std::uint32_t>(), 0});
  if (op == "insert") return at.insert_multicast_group(group, std::move(replicas));
  if (op == "modify") return at.modify_multicast_group(group, std::move(replicas));
  return at.delete_multicast_group(group);
}

engine::Status write_clone_session(engine::Switch& at, const Json& update) {
  engine::CloneSession config;
  config.replicas.push_back({update.at("port").get<std::uint32_t>(), 0});
  return at.insert_clone_session(update.at("clone"), std::move(config));
}

}  // namespace

ControlLink::ControlLink(std::istream& answers, VirtualNetwork& network, Records& records,
                         TopRank top_rank)
    : answers_(answers), network_(network), records_(records), top_rank_(std::move(top_rank)) {}

void ControlLink::apply_next_line() { apply(read_line()); }

std::string ControlLink::read_line() {
  std::string line;
  if (!std::getline(answers_, line)) throw std::runtime_error("the controller is gone");
  return line;
}

void ControlLink::apply(const std::string& line) {
  try {
    const Json answer = Json::parse(line);
    for (const Json& update : answer.at("updates")) {
      const std::string name = update.at("switch");
      const std::string op = update.at("op");
      engine::Switch& at = network_.at(name);
      const engine::Status status = update.contains("table")   ? write_entry(at, op, update)
                                    : update.contains("group") ? write_group(at, op, update)
                                                               : write_clone_session(at, update);
      if (!status.ok())
        throw ConfigError(name + " refuses " + update.dump() + ": " + status.message());
    }
    if (answer.contains("top_rank")) top_rank_(answer.at("session"), answer.at("top_rank"));
  } catch (const Json::exception& error) {
    throw ConfigError("the controller's answer: " + std::string(error.what()) + ": " + line);
  }
}

void ControlLink::report(const HostSpec& host, const v1::SimulatedSession& session, Rank rank,
                         bool joins) {
  const engine::PortConfig port =
      network_.at(host.switch_name).port_config(host.switch_port).value();
  const char* what = joins ? "join" : "leave";
  ns3::Simulator::Schedule(ns3::NanoSeconds(port.rx_delay_ns),
                           [this, what, &host, &session, rank] { ask(what, host, session, rank); });
}

void ControlLink::ask(const char* what, const HostSpec& host, const v1::SimulatedSession& session,
                      Rank rank) {
  const Json question = {{"ask", what},
                         {"time_ns", ns3::Simulator::Now().GetNanoSeconds()},
                         {"host", host.name},
                         {"session", session.session().session()},
                         {"rank", rank}};
  records_.send_now(question.dump());
  const std::string answer = read_line();
  std::int64_t delay_ns = 0;
  std::int64_t expire_ns = 0;
  try {
    const Json told = Json::parse(answer);
    delay_ns = told.at("delay_ns");
    expire_ns = told.value("expire_ns", expire_ns);
  } catch (const Json::exception& error) {
    throw ConfigError("the controller's answer: " + std::string(error.what()) + ": " + answer);
  }
  ns3::Simulator::Schedule(ns3::NanoSeconds(delay_ns), [this, answer] { apply(answer); });
  if (expire_ns > 0) {
    ns3::Simulator::Schedule(ns3::NanoSeconds(expire_ns),
                             [this, &host, &session, rank] { ask("expire", host, session, rank); });
  }
}

}  // namespace tiercast::ns3_runtime
