#include "dataplane/updates/switch_updates.h"

#include <vector>

#include "base/config_error.h"
#include "base/text_file.h"
#include "dataplane/engine/queues/priority_message.h"
#include "dataplane/engine/queues/red_message.h"
#include "dataplane/engine/queues/wire_message.h"

namespace tiercast::updates {
namespace {

engine::FieldMatch field_match(const v1::MatchValue& field) {
  switch (field.extent_case()) {
    case v1::MatchValue::kPrefixBits:
      return engine::FieldMatch::lpm(field.value(), field.prefix_bits());
    case v1::MatchValue::kMask: return engine::FieldMatch::ternary(field.value(), field.mask());
    case v1::MatchValue::kHigh: return engine::FieldMatch::range(field.value(), field.high());
    case v1::MatchValue::kAny: return engine::FieldMatch::dont_care();
    case v1::MatchValue::EXTENT_NOT_SET: break;
  }
  return engine::FieldMatch::exact(field.value());
}

engine::TableEntry table_entry(const v1::TableEntry& described) {
  engine::TableEntry result;
  for (const v1::MatchValue& field : described.match()) {
    result.match.push_back(field_match(field));
  }
  result.priority = described.priority();
  result.action.name = described.action();
  for (const std::string& argument : described.arguments()) {
    result.action.arguments.push_back(argument);
  }
  return result;
}

engine::Status write_entry(engine::Switch& at, v1::SwitchUpdate::Op op,
                           const v1::TableEntry& entry) {
  if (op == v1::SwitchUpdate::INSERT) return at.insert_entry(entry.table(), table_entry(entry));
  if (op == v1::SwitchUpdate::MODIFY) return at.modify_entry(entry.table(), table_entry(entry));
  return at.delete_entry(entry.table(), table_entry(entry));
}

engine::Status write_group(engine::Switch& at, v1::SwitchUpdate::Op op,
                           const v1::ReplicationGroup& group) {
  std::vector<engine::Replica> replicas;
  for (const std::uint32_t port : group.ports()) replicas.push_back({port, 0});
  if (op == v1::SwitchUpdate::INSERT) {
    return at.insert_multicast_group(group.id(), replicas);
  }
  if (op == v1::SwitchUpdate::MODIFY) {
    return at.modify_multicast_group(group.id(), replicas);
  }
  return at.delete_multicast_group(group.id());
}

}  // namespace

engine::Status apply(engine::Switch& at, const v1::SwitchUpdate& update) {
  if (update.op() == v1::SwitchUpdate::OP_UNSPECIFIED) {
    throw ConfigError(update.ShortDebugString() + ": no op; valid: INSERT, MODIFY, DELETE");
  }
  switch (update.entity_case()) {
    case v1::SwitchUpdate::kEntry: return write_entry(at, update.op(), update.entry());
    case v1::SwitchUpdate::kGroup: return write_group(at, update.op(), update.group());
    case v1::SwitchUpdate::kClone: {
      engine::CloneSession config;
      config.replicas.push_back({update.clone().port(), 0});
      return at.insert_clone_session(update.clone().id(), config);
    }
    case v1::SwitchUpdate::kCell:
      return at.write_register(update.cell().array(), update.cell().index(), update.cell().value());
    case v1::SwitchUpdate::ENTITY_NOT_SET: break;
  }
  throw ConfigError(update.ShortDebugString() + ": no entity; valid: entry, group, clone, cell");
}

engine::PortConfig port_config(const v1::SimulatedPort& port) {
  engine::PortConfig result;
  result.rate_bps = port.rate_bps();
  result.queue_packets = port.queue_packets();
  result.queue_bytes = port.queue_bytes();
  result.delay_ns = port.delay_ns();
  result.rx_delay_ns = port.rx_delay_ns();
  result.overhead_bytes = port.overhead_bytes();
  result.fair_queueing = port.fair_queueing();
  result.layered = port.layered();
  result.priority = engine::read_priority_queues(port.priority_queues());
  if (port.has_red()) result.red = engine::read_red(port.red());
  engine::change_wire(port.wire(), result.wire);
  engine::change_wire(port.rx_wire(), result.rx_wire);
  return result;
}

std::shared_ptr<const engine::Program> load_program(const std::string& path) {
  return engine::Program::load(read_text_file(path).text, path);
}

}  // namespace tiercast::updates
