#include <fmt/format.h>

#include <optional>

#include "dataplane/switch/p4runtime/entities/cells.h"
#include "dataplane/switch/p4runtime/entities/entity_kinds.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"
#include "dataplane/switch/p4runtime/translate/translate.h"

namespace tiercast::vswitch {

void require_modify(p4::v1::Update::Type type, const std::string& place) {
  if (type != p4::v1::Update::MODIFY)
    throw invalid(fmt::format("{}: {} is not allowed; valid: MODIFY", place,
                              p4::v1::Update::Type_Name(type)));
}

namespace {

using p4::v1::Update;

// --- Table entries ---

void annotate(Annotations::Entry& to, const p4::v1::TableEntry& from) {
  to.controller_metadata = from.controller_metadata();
  to.metadata = from.metadata();
}

void check_entry(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry) {
  const std::string place = fmt::format("table {}", table.name);
  if (entry.is_const()) throw invalid(place + ": is_const is set");
  if ((entry.has_meter_config() || entry.has_meter_counter_data()) && table.direct_meter == 0)
    throw invalid(place + ": it has no direct meter");
  refuse_meter_counters(entry.has_meter_counter_data(), place);
  if (entry.has_counter_data() && table.direct_counter == 0)
    throw invalid(place + ": it has no direct counter");
  if (entry.has_time_since_last_hit()) throw invalid(place + ": time_since_last_hit is set");
  const bool may_time_out = table.has_idle_timeout && !table.is_const && !entry.is_default_action();
  if (entry.idle_timeout_ns() != 0 && !may_time_out)
    throw invalid(place + ": idle timeouts are not supported");
  if (entry.idle_timeout_ns() < 0)
    throw invalid(fmt::format("{}: idle_timeout_ns {} is below 0", place, entry.idle_timeout_ns()));
}

void write_default(const Target& target, const ProgramInfo::Table& table, Update::Type type,
                   const p4::v1::TableEntry& entry) {
  const std::string place = fmt::format("table {}, default action", table.name);
  require_modify(type, place);
  if (entry.match_size() != 0 || entry.priority() != 0)
    throw invalid(place + ": it has no match and no priority");
  if (entry.has_counter_data() || entry.has_meter_config())
    throw RequestError(grpc::UNIMPLEMENTED, place + ": it has no counter and no meter");
  if (table.has_const_default())
    throw RequestError(grpc::PERMISSION_DENIED, place + " is constant");
  if (!entry.has_action()) {
    require(target.pipeline.reset_default_action(table.name));
    target.annotations.defaults.erase(table.id);
    return;
  }
  if (!entry.action().has_action()) throw invalid(place + ": not a TableAction.action");
  require(target.pipeline.set_default_action(
      table.name,
      action_call("table " + table.name, table.actions, entry.action().action(), true)));
  annotate(target.annotations.defaults[table.id], entry);
}

// What an entry's message says besides its key. It is read before anything changes, so that an
// update that fails changes nothing.
void set_action(const Target& target, const ProgramInfo::Table& table,
                const p4::v1::TableEntry& entry, const engine::TableEntry* old,
                engine::TableEntry& out, Annotations::Entry& notes) {
  if (table.action_profile != 0) {
    p4::v1::ActionProfileActionSet written;
    set_indirect_action(target, table, entry.action(), old, out, written);
    if (out.action_set) notes.action_set = std::move(written);
    return;
  }
  const std::string place = fmt::format("table {}", table.name);
  if (!entry.action().has_action())
    throw invalid(place + ": the action is not a direct one (TableAction.action)");
  out.action = action_call(place, table.actions, entry.action().action());
}

void set_options(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry,
                 engine::TableEntry& out) {
  out.idle_timeout_ns = entry.idle_timeout_ns();
  if (entry.has_counter_data()) out.counter = counter_value(entry.counter_data());
  if (entry.has_meter_config())
    out.meter = meter_config(table.meter_type, entry.meter_config(), "table " + table.name);
}

RequestError constant(const ProgramInfo::Table& table) {
  return {grpc::PERMISSION_DENIED, fmt::format("table {}: its entries are constant", table.name)};
}

// Of a constant entry, only the direct resources can be changed: "Constant Tables".
void modify_constant_entry(const Target& target, const ProgramInfo::Table& table,
                           const engine::TableEntry& key, const p4::v1::TableEntry& entry) {
  if (entry.has_action()) throw constant(table);
  require(target.pipeline.read_entry(table.name, key).status());
  if (key.counter) require(target.pipeline.write_entry_counter(table.name, key, *key.counter));
  if (table.direct_meter != 0)
    require(target.pipeline.write_entry_meter(table.name, key, key.meter));
}

void modify_entry(const Target& target, const ProgramInfo::Table& table, engine::TableEntry key,
                  const p4::v1::TableEntry& entry, Annotations::Entry& notes) {
  if (table.is_const) return modify_constant_entry(target, table, key, entry);
  const engine::TableEntry old = value_of(target.pipeline.read_entry(table.name, key));
  if (entry.has_action()) {
    set_action(target, table, entry, &old, key, notes);
  } else {
    key.action = old.action;
    key.member = old.member;
    key.group = old.group;
    key.action_set = old.action_set;
    const auto before = target.annotations.entries.find(identity(table, key));
    if (before != target.annotations.entries.end()) notes.action_set = before->second.action_set;
  }
  require(target.pipeline.modify_entry(table.name, key));
}

void write_entry(const Target& target, Update::Type type, const p4::v1::TableEntry& entry) {
  const ProgramInfo::Table& table = target.info.table(entry.table_id());
  if (type != Update::DELETE) check_entry(table, entry);
  if (entry.is_default_action()) return write_default(target, table, type, entry);
  if (table.fields.empty())
    throw invalid(
        fmt::format("table {} has no key: only its default action can be set", table.name));

  if (table.is_const && type != Update::MODIFY) throw constant(table);

  engine::TableEntry key = entry_key(table, entry);
  const std::string id = identity(table, key);
  if (type == Update::DELETE) {
    require(target.pipeline.delete_entry(table.name, key));
    target.annotations.entries.erase(id);
    return;
  }
  Annotations::Entry notes;
  annotate(notes, entry);
  set_options(table, entry, key);
  if (type == Update::INSERT) {
    if (!entry.has_action()) throw invalid(fmt::format("table {}: no action", table.name));
    set_action(target, table, entry, nullptr, key, notes);
    require(target.pipeline.insert_entry(table.name, key));
  } else {
    modify_entry(target, table, key, entry, notes);
  }
  if (notes.empty()) {
    target.annotations.entries.erase(id);
  } else {
    target.annotations.entries[id] = std::move(notes);
  }
}

// The entry that a direct resource belongs to.
engine::TableEntry resource_key(const Target& target, const ProgramInfo::Table& table,
                                const p4::v1::TableEntry& entry, const std::string& place) {
  if (entry.is_default_action())
    throw RequestError(grpc::UNIMPLEMENTED,
                       place + ": that of the default action cannot be written");
  const engine::TableEntry key = entry_key(table, entry);
  require(target.pipeline.read_entry(table.name, key).status());
  return key;
}

void write_direct_counter(const Target& target, Update::Type type,
                          const p4::v1::DirectCounterEntry& entry) {
  const ProgramInfo::Table& table = target.info.table(entry.table_entry().table_id());
  const std::string place = fmt::format("table {}, direct counter", table.name);
  require_modify(type, place);
  if (table.direct_counter == 0) throw invalid(place + ": there is none");
  const engine::TableEntry key = resource_key(target, table, entry.table_entry(), place);
  if (entry.has_data())
    require(target.pipeline.write_entry_counter(table.name, key, counter_value(entry.data())));
}

void write_direct_meter(const Target& target, Update::Type type,
                        const p4::v1::DirectMeterEntry& entry) {
  const ProgramInfo::Table& table = target.info.table(entry.table_entry().table_id());
  const std::string place = fmt::format("table {}, direct meter", table.name);
  require_modify(type, place);
  if (table.direct_meter == 0) throw invalid(place + ": there is none");
  refuse_meter_counters(entry.has_counter_data(), place);
  const engine::TableEntry key = resource_key(target, table, entry.table_entry(), place);
  std::optional<engine::MeterConfig> config;
  if (entry.has_config()) config = meter_config(table.meter_type, entry.config(), place);
  require(target.pipeline.write_entry_meter(table.name, key, config));
}

// --- Counters and registers ---

void write_counter(const Target& target, Update::Type type, const p4::v1::CounterEntry& entry) {
  const ProgramInfo::Array& array = target.info.counter(entry.counter_id());
  const std::string place = fmt::format("counter {}", array.name);
  require_modify(type, place);
  const engine::CellRange cells = cells_of(array, entry, place);
  if (!entry.has_data()) return;
  require(target.pipeline.write_counter(array.name, cells, counter_value(entry.data())));
}

void write_register(const Target& target, Update::Type type, const p4::v1::RegisterEntry& entry) {
  const ProgramInfo::Array& array = target.info.register_array(entry.register_id());
  const std::string place = fmt::format("register {}", array.name);
  require_modify(type, place);
  if (array.width == 0)
    throw RequestError(grpc::UNIMPLEMENTED, place + ": only bit<W> cells can be written");
  if (entry.data().data_case() != p4::v1::P4Data::kBitstring)
    throw invalid(place + ": the data is not a bitstring");
  const engine::CellRange cells = cells_of(array, entry, place);
  const std::string value = canonical(entry.data().bitstring(), array.width, place);
  require(target.pipeline.write_register(array.name, cells, value));
}

// --- Packet replication engine ---

void write_group(const Target& target, Update::Type type,
                 const p4::v1::MulticastGroupEntry& entry) {
  const std::uint32_t group = entry.multicast_group_id();
  const std::string place = fmt::format("multicast group {}", group);
  if (group == 0) throw invalid(place + ": the id is not above 0");
  if (group > 0xffff) throw RequestError(grpc::OUT_OF_RANGE, place + ": valid: 1 to 65535");
  if (type == Update::DELETE) {
    require(target.pipeline.delete_multicast_group(group));
    target.annotations.groups.erase(group);
    return;
  }
  const auto list = replicas(entry.replicas(), place);
  require(type == Update::INSERT ? target.pipeline.insert_multicast_group(group, list)
                                 : target.pipeline.modify_multicast_group(group, list));
  target.annotations.groups[group] = {entry.metadata(), uses_port_bytes(entry.replicas())};
}

void write_clone_session(const Target& target, Update::Type type,
                         const p4::v1::CloneSessionEntry& entry) {
  const std::uint32_t session = entry.session_id();
  const std::string place = fmt::format("clone session {}", session);
  if (session == 0) throw invalid(place + ": the id is not above 0");
  if (type == Update::DELETE) {
    require(target.pipeline.delete_clone_session(session));
    target.annotations.clone_sessions.erase(session);
    return;
  }
  if (entry.class_of_service() != 0)
    throw invalid(
        fmt::format("{}: class_of_service {}; valid: 0", place, entry.class_of_service()));
  if (entry.packet_length_bytes() < 0 || entry.packet_length_bytes() > 0xffff)
    throw invalid(fmt::format("{}: packet_length_bytes {} is not one of 0 to 65535", place,
                              entry.packet_length_bytes()));
  engine::CloneSession config;
  config.replicas = replicas(entry.replicas(), place);
  config.packet_length = static_cast<std::uint16_t>(entry.packet_length_bytes());
  require(type == Update::INSERT ? target.pipeline.insert_clone_session(session, config)
                                 : target.pipeline.modify_clone_session(session, config));
  target.annotations.clone_sessions[session] = {{}, uses_port_bytes(entry.replicas())};
}

void write_replication(const Target& target, Update::Type type,
                       const p4::v1::PacketReplicationEngineEntry& entry) {
  if (entry.has_multicast_group_entry()) {
    write_group(target, type, entry.multicast_group_entry());
  } else if (entry.has_clone_session_entry()) {
    write_clone_session(target, type, entry.clone_session_entry());
  } else {
    throw invalid("packet_replication_engine_entry: neither a multicast group nor a clone session");
  }
}

}  // namespace

void write_update(const Target& target, const Update& update) {
  const Update::Type type = update.type();
  if (type != Update::INSERT && type != Update::MODIFY && type != Update::DELETE)
    throw invalid("update type is not set; valid: INSERT, MODIFY, DELETE");
  const p4::v1::Entity& entity = update.entity();
  switch (entity.entity_case()) {
    case p4::v1::Entity::kTableEntry: return write_entry(target, type, entity.table_entry());
    case p4::v1::Entity::kDirectCounterEntry:
      return write_direct_counter(target, type, entity.direct_counter_entry());
    case p4::v1::Entity::kCounterEntry: return write_counter(target, type, entity.counter_entry());
    case p4::v1::Entity::kRegisterEntry:
      return write_register(target, type, entity.register_entry());
    case p4::v1::Entity::kPacketReplicationEngineEntry:
      return write_replication(target, type, entity.packet_replication_engine_entry());
    case p4::v1::Entity::kActionProfileMember:
      return write_member(target, type, entity.action_profile_member());
    case p4::v1::Entity::kActionProfileGroup:
      return write_action_group(target, type, entity.action_profile_group());
    case p4::v1::Entity::kMeterEntry: return write_meter(target, type, entity.meter_entry());
    case p4::v1::Entity::kDirectMeterEntry:
      return write_direct_meter(target, type, entity.direct_meter_entry());
    case p4::v1::Entity::kDigestEntry: return write_digest(target, type, entity.digest_entry());
    case p4::v1::Entity::kValueSetEntry:
      return write_value_set(target, type, entity.value_set_entry());
    case p4::v1::Entity::ENTITY_NOT_SET: throw invalid("the update has no entity");
    default: throw RequestError(grpc::UNIMPLEMENTED, "extern entries are not supported");
  }
}

}  // namespace tiercast::vswitch
