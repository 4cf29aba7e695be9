#include <fmt/format.h>

#include <optional>

#include "dataplane/switch/p4runtime/bytestring.h"
#include "dataplane/switch/p4runtime/entities.h"
#include "dataplane/switch/p4runtime/errors.h"
#include "dataplane/switch/p4runtime/translate.h"

namespace tiercast::vswitch {
namespace {

using p4::v1::Update;

RequestError invalid(const std::string& message) { return {grpc::INVALID_ARGUMENT, message}; }

void require_modify(Update::Type type, const std::string& place) {
  if (type != Update::MODIFY)
    throw invalid(
        fmt::format("{}: {} is not allowed; valid: MODIFY", place, Update::Type_Name(type)));
}

// --- Table entries ---

void annotate(Annotations::Entry& to, const p4::v1::TableEntry& from) {
  to.controller_metadata = from.controller_metadata();
  to.metadata = from.metadata();
}

void check_entry(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry) {
  const std::string place = fmt::format("table {}", table.name);
  if (entry.is_const()) throw invalid(place + ": is_const is set");
  if (entry.has_meter_config() || entry.has_meter_counter_data())
    throw invalid(place + ": it has no direct meter");
  if (entry.has_counter_data() && table.direct_counter == 0)
    throw invalid(place + ": it has no direct counter");
  if (entry.idle_timeout_ns() != 0)
    throw RequestError(table.has_idle_timeout ? grpc::UNIMPLEMENTED : grpc::INVALID_ARGUMENT,
                       place + ": idle timeouts are not supported");
}

void write_default(const Target& target, const ProgramInfo::Table& table, Update::Type type,
                   const p4::v1::TableEntry& entry) {
  const std::string place = fmt::format("table {}, default action", table.name);
  require_modify(type, place);
  if (entry.match_size() != 0 || entry.priority() != 0)
    throw invalid(place + ": it has no match and no priority");
  if (entry.has_counter_data())
    throw RequestError(grpc::UNIMPLEMENTED, place + ": its counter cannot be written");
  if (table.const_default) throw RequestError(grpc::PERMISSION_DENIED, place + " is constant");
  if (!entry.has_action()) {
    require(target.pipeline.reset_default_action(table.name));
    target.annotations.defaults.erase(table.id);
    return;
  }
  require(target.pipeline.set_default_action(table.name, action_call(table, entry.action(), true)));
  annotate(target.annotations.defaults[table.id], entry);
}

// What an entry's message says of its direct counter. Read before anything is changed, so that an
// update that fails changes nothing.
std::optional<engine::CounterValue> entry_counter(const p4::v1::TableEntry& entry) {
  if (!entry.has_counter_data()) return std::nullopt;
  return counter_value(entry.counter_data());
}

void modify_entry(const Target& target, const ProgramInfo::Table& table, engine::TableEntry key,
                  const p4::v1::TableEntry& entry) {
  const auto counter = entry_counter(entry);
  if (table.is_const && entry.has_action())
    throw RequestError(grpc::PERMISSION_DENIED,
                       fmt::format("table {}: its entries are constant", table.name));
  if (entry.has_action()) {
    key.action = action_call(table, entry.action(), false);
    require(target.pipeline.modify_entry(table.name, key));
  } else {
    require(target.pipeline.read_entry(table.name, key).status());
  }
  if (counter) require(target.pipeline.write_entry_counter(table.name, key, *counter));
}

void write_entry(const Target& target, Update::Type type, const p4::v1::TableEntry& entry) {
  const ProgramInfo::Table& table = target.info.table(entry.table_id());
  if (type != Update::DELETE) check_entry(table, entry);
  if (entry.is_default_action()) return write_default(target, table, type, entry);
  if (table.fields.empty())
    throw invalid(
        fmt::format("table {} has no key: only its default action can be set", table.name));

  engine::TableEntry key = entry_key(table, entry);
  const std::string id = identity(table, key);
  if (type == Update::DELETE) {
    require(target.pipeline.delete_entry(table.name, key));
    target.annotations.entries.erase(id);
    return;
  }
  if (type == Update::INSERT) {
    if (!entry.has_action()) throw invalid(fmt::format("table {}: no action", table.name));
    key.action = action_call(table, entry.action(), false);
    const auto counter = entry_counter(entry);
    require(target.pipeline.insert_entry(table.name, key));
    if (counter) require(target.pipeline.write_entry_counter(table.name, key, *counter));
  } else {
    modify_entry(target, table, key, entry);
  }
  if (entry.controller_metadata() != 0 || !entry.metadata().empty()) {
    annotate(target.annotations.entries[id], entry);
  } else {
    target.annotations.entries.erase(id);
  }
}

void write_direct_counter(const Target& target, Update::Type type,
                          const p4::v1::DirectCounterEntry& entry) {
  const ProgramInfo::Table& table = target.info.table(entry.table_entry().table_id());
  const std::string place = fmt::format("table {}, direct counter", table.name);
  require_modify(type, place);
  if (table.direct_counter == 0) throw invalid(place + ": there is none");
  if (entry.table_entry().is_default_action())
    throw RequestError(grpc::UNIMPLEMENTED, place + ": the default action's cannot be written");
  const engine::TableEntry key = entry_key(table, entry.table_entry());
  require(target.pipeline.read_entry(table.name, key).status());
  if (entry.has_data())
    require(target.pipeline.write_entry_counter(table.name, key, counter_value(entry.data())));
}

// --- Counters and registers ---

// The cells that an index names: one, or all if it is absent.
struct Cells {
  std::uint64_t first, last;  // [first, last)
};

Cells cells_of(const ProgramInfo::Array& array, bool has_index, std::int64_t index,
               const std::string& place) {
  if (!has_index) return {0, array.size};
  if (index < 0) throw invalid(fmt::format("{}: index {} is below 0", place, index));
  const auto cell = static_cast<std::uint64_t>(index);
  if (cell >= array.size)
    throw RequestError(grpc::OUT_OF_RANGE, fmt::format("{}: index {} is not one of 0 to {}", place,
                                                       index, array.size - 1));
  return {cell, cell + 1};
}

void write_counter(const Target& target, Update::Type type, const p4::v1::CounterEntry& entry) {
  const ProgramInfo::Array& array = target.info.counter(entry.counter_id());
  const std::string place = fmt::format("counter {}", array.name);
  require_modify(type, place);
  const Cells cells = cells_of(array, entry.has_index(), entry.index().index(), place);
  if (!entry.has_data()) return;
  const engine::CounterValue value = counter_value(entry.data());
  for (std::uint64_t i = cells.first; i < cells.last; ++i)
    require(target.pipeline.write_counter(array.name, i, value));
}

void write_register(const Target& target, Update::Type type, const p4::v1::RegisterEntry& entry) {
  const ProgramInfo::Array& array = target.info.register_array(entry.register_id());
  const std::string place = fmt::format("register {}", array.name);
  require_modify(type, place);
  if (array.width == 0)
    throw RequestError(grpc::UNIMPLEMENTED, place + ": only bit<W> cells can be written");
  if (entry.data().data_case() != p4::v1::P4Data::kBitstring)
    throw invalid(place + ": the data is not a bitstring");
  const Cells cells = cells_of(array, entry.has_index(), entry.index().index(), place);
  const std::string value = canonical(entry.data().bitstring(), array.width, place);
  for (std::uint64_t i = cells.first; i < cells.last; ++i)
    require(target.pipeline.write_register(array.name, i, value));
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
  auto list = replicas(entry.replicas(), place);
  require(type == Update::INSERT ? target.pipeline.insert_multicast_group(group, std::move(list))
                                 : target.pipeline.modify_multicast_group(group, std::move(list)));
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
    throw invalid(fmt::format("{}: class_of_service {} is not 0 (a port has one queue)", place,
                              entry.class_of_service()));
  if (entry.packet_length_bytes() < 0 || entry.packet_length_bytes() > 0xffff)
    throw invalid(fmt::format("{}: packet_length_bytes {} is not one of 0 to 65535", place,
                              entry.packet_length_bytes()));
  engine::CloneSession config;
  config.replicas = replicas(entry.replicas(), place);
  config.packet_length = static_cast<std::uint16_t>(entry.packet_length_bytes());
  require(type == Update::INSERT
              ? target.pipeline.insert_clone_session(session, std::move(config))
              : target.pipeline.modify_clone_session(session, std::move(config)));
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
    case p4::v1::Entity::ENTITY_NOT_SET: throw invalid("the update has no entity");
    default:
      throw RequestError(grpc::UNIMPLEMENTED,
                         "entity kind is not supported; supported: table_entry, "
                         "direct_counter_entry, counter_entry, register_entry, "
                         "packet_replication_engine_entry");
  }
}

}  // namespace tiercast::vswitch
