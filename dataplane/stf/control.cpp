#include "dataplane/stf/control.h"

#include <algorithm>

#include "dataplane/stf/names.h"

namespace tiercast::stf {

namespace {

constexpr std::uint64_t kMaxIndex = UINT32_MAX;
constexpr double kPerSecond = 1e6;  // meter rates are in units per microsecond

void require(const engine::Status& status) {
  if (!status.ok()) throw NameError(status.message());
}

template <class T>
T require(engine::Result<T> result) {
  if (!result.ok()) throw NameError(result.status().message());
  return std::move(result).value();
}

template <class Infos>
std::vector<std::string> names_of(const Infos& infos) {
  std::vector<std::string> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

const std::string& operand(const Command& c, std::size_t index, const char* what) {
  if (index >= c.operands.size()) throw NameError(c.name + ": " + what + " is missing");
  return c.operands[index];
}

void at_most(const Command& c, std::size_t operands) {
  if (c.operands.size() > operands) {
    throw NameError(c.name + ": superfluous operand `" + c.operands[operands] + "`");
  }
}

std::uint32_t number(const Command& c, std::size_t index, const char* what, std::uint64_t max) {
  return static_cast<std::uint32_t>(small_number(operand(c, index, what), max));
}

bool holds(std::uint64_t value, const std::string& comparison, std::uint64_t wanted) {
  if (comparison == "==") return value == wanted;
  if (comparison == "!=") return value != wanted;
  if (comparison == "<") return value < wanted;
  if (comparison == "<=") return value <= wanted;
  if (comparison == ">") return value > wanted;
  return value >= wanted;
}

}  // namespace

void Control::run(const Command& c) {
  switch (c.verb) {
    case Verb::kAdd: return add(c);
    case Verb::kSetDefault: return set_default(c);
    case Verb::kRemoveAll: return remove_all();
    case Verb::kCheckCounter: return check_counter(c);
    default: return direct(c);
  }
}

void Control::add(const Command& c) {
  const engine::TableInfo& table = table_named(switch_.program(), c.name);
  engine::TableEntry entry;
  entry.match = key_of(table, c.matches);
  entry.action = call_of(switch_.program(), action_named(table, c.action), c.arguments);
  // In a script the largest priority wins, as in P4Runtime, but 0 is allowed.
  if (table.needs_priority) {
    entry.priority =
        c.priority ? static_cast<std::int32_t>(small_number(*c.priority, INT32_MAX - 1)) + 1 : 1;
  }
  require(switch_.insert_entry(table.name, entry));
  if (!c.label.empty()) labels_[c.label] = {table.name, entry};
}

void Control::set_default(const Command& c) {
  const engine::TableInfo& table = table_named(switch_.program(), c.name);
  require(switch_.set_default_action(
      table.name, call_of(switch_.program(), action_named(table, c.action), c.arguments)));
}

void Control::remove_all() {
  for (const engine::TableInfo& table : switch_.program().tables()) {
    if (!table.initial_entries.empty()) continue;
    for (const auto& entry : require(switch_.read_entries(table.name))) {
      require(switch_.delete_entry(table.name, entry));
    }
  }
  labels_.clear();
}

engine::CounterValue Control::counter_value(const Command& c) const {
  const std::string name = extern_named(names_of(switch_.program().counters()), "counter", c.name);
  if (!c.index.starts_with('$')) {
    return require(switch_.read_counter(name, small_number(c.index, kMaxIndex)));
  }
  const auto label = labels_.find(c.index.substr(1));
  if (label == labels_.end()) throw NameError("no entry has the label `" + c.index + "`");
  const auto entry = require(switch_.read_entry(label->second.table, label->second.entry));
  if (!entry.counter) throw NameError("table " + label->second.table + " has no direct counter");
  return *entry.counter;
}

void Control::check_counter(const Command& c) {
  const engine::CounterValue value = counter_value(c);
  if (!c.check) return;
  const std::uint64_t got = c.check->bytes ? value.bytes : value.packets;
  if (!holds(got, c.check->comparison, small_number(c.check->number, UINT64_MAX - 1))) {
    throw NameError("counter " + c.name + "(" + c.index + "): expected " +
                    (c.check->bytes ? "bytes " : "packets ") + c.check->comparison + " " +
                    c.check->number + " got " + std::to_string(got));
  }
}

void Control::direct(const Command& c) {
  if (c.name.starts_with("mirroring")) return mirroring(c);
  if (c.name.starts_with("mc_")) return multicast(c);
  if (c.name.starts_with("counter")) return counter(c);
  if (c.name.starts_with("register")) return registers(c);
  meter(c);
}

void Control::mirroring(const Command& c) {
  const std::uint32_t session = number(c, 0, "a session", 32767);
  if (c.name == "mirroring_get" || c.name == "mirroring_delete") {
    at_most(c, 1);
    if (c.name == "mirroring_get") {
      require(switch_.clone_session(session));
    } else {
      require(switch_.delete_clone_session(session));
      group_sessions_.erase(session);
    }
    return;
  }
  at_most(c, 2);
  const bool exists = switch_.clone_session(session).ok();
  engine::CloneSession config;
  group_sessions_.erase(session);
  if (c.name == "mirroring_add") {
    config.replicas.push_back({number(c, 1, "a port", engine::Switch::kMaxPorts - 1), 0});
  } else {
    group_sessions_[session] = number(c, 1, "a multicast group", 65535);
  }
  require(exists ? switch_.modify_clone_session(session, config)
                 : switch_.insert_clone_session(session, config));
  install_groups();
}

void Control::multicast(const Command& c) {
  if (c.name == "mc_mgrp_create") {
    at_most(c, 1);
    const std::uint32_t group = number(c, 0, "a group", 65535);
    require(switch_.insert_multicast_group(group, {}));
    groups_[group];
    return;
  }
  if (c.name == "mc_node_associate") {
    at_most(c, 2);
    const std::uint32_t group = number(c, 0, "a group", 65535);
    const std::uint32_t node = number(c, 1, "a node", kMaxIndex);
    if (!groups_.contains(group)) throw NameError("no group " + c.operands[0]);
    if (node >= nodes_.size()) throw NameError("no node " + c.operands[1]);
    groups_[group].push_back(node);
    return install_groups();
  }
  // mc_node_create INSTANCE PORT..., mc_node_update NODE PORT...
  std::vector<std::uint32_t> ports;
  for (std::size_t i = 1; i < c.operands.size(); ++i) {
    ports.push_back(number(c, i, "a port", engine::Switch::kMaxPorts - 1));
  }
  if (c.name == "mc_node_create") {
    nodes_.push_back({static_cast<std::uint16_t>(number(c, 0, "an instance", 65535)), ports});
    return;
  }
  const std::uint32_t node = number(c, 0, "a node", kMaxIndex);
  if (node >= nodes_.size()) throw NameError("no node " + c.operands[0]);
  nodes_[node].ports = ports;
  install_groups();
}

void Control::install_groups() {
  std::map<std::uint32_t, std::vector<engine::Replica>> replicas;
  for (const auto& [group, nodes] : groups_) {
    for (const std::size_t node : nodes) {
      for (const std::uint32_t port : nodes_[node].ports) {
        replicas[group].push_back({port, nodes_[node].instance});
      }
    }
    require(switch_.modify_multicast_group(group, replicas[group]));
  }
  for (const auto& [session, group] : group_sessions_) {
    require(switch_.modify_clone_session(session, {replicas[group], 0}));
  }
}

void Control::counter(const Command& c) {
  const std::string name =
      extern_named(names_of(switch_.program().counters()), "counter", operand(c, 0, "a counter"));
  const std::uint32_t index = number(c, 1, "an index", kMaxIndex);
  if (c.name == "counter_read") {
    at_most(c, 2);
    require(switch_.read_counter(name, index));
    return;
  }
  at_most(c, 4);
  require(switch_.write_counter(name, index,
                                {small_number(operand(c, 2, "packets"), UINT64_MAX - 1),
                                 small_number(operand(c, 3, "bytes"), UINT64_MAX - 1)}));
}

void Control::registers(const Command& c) {
  const auto& infos = switch_.program().registers();
  const std::string name = extern_named(names_of(infos), "register", operand(c, 0, "a register"));
  if (c.name == "register_reset") {
    at_most(c, 1);
    const auto info =
        std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
    require(switch_.write_register(name, {0, info->size}, engine::Bytes(1, '\0')));
    return;
  }
  const std::uint32_t index = number(c, 1, "an index", kMaxIndex);
  if (c.name == "register_read") {
    at_most(c, 2);
    require(switch_.read_register(name, index));
    return;
  }
  at_most(c, 3);
  require(switch_.write_register(name, index, number_bytes(operand(c, 2, "a value"))));
}

void Control::meter(const Command& c) {
  const auto& infos = switch_.program().meters();
  const std::string name = extern_named(names_of(infos), "meter", operand(c, 0, "a meter"));
  const auto info =
      std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
  const bool whole_array = c.name == "meter_array_set_rates";
  const std::uint32_t index = whole_array ? 0 : number(c, 1, "an index", kMaxIndex);
  if (c.name == "meter_get_rates") {
    at_most(c, 2);
    require(switch_.read_meter(name, index));
    return;
  }
  // RATE:BURST for the committed rate, then for the peak rate.
  const std::size_t first = whole_array ? 1 : 2;
  at_most(c, first + 2);
  const auto rate = [&](std::size_t i, double& per_second, std::uint64_t& burst) {
    const std::string& text = operand(c, i, "RATE:BURST");
    const std::size_t colon = text.find(':');
    std::size_t end = 0;
    double value = -1;
    try {
      value = std::stod(text, &end);
    } catch (const std::logic_error&) {
    }
    if (colon == text.npos || end != colon || !(value >= 0)) {
      throw NameError("`" + text + "` is not RATE:BURST");
    }
    per_second = value * kPerSecond;
    burst = small_number(text.substr(colon + 1), UINT64_MAX - 1);
  };
  engine::MeterConfig config;
  rate(first, config.committed_rate, config.committed_burst);
  rate(first + 1, config.peak_rate, config.peak_burst);
  const std::uint64_t last = whole_array ? info->size : index + std::uint64_t{1};
  require(switch_.write_meter(name, {index, last}, config));
}

}  // namespace tiercast::stf
