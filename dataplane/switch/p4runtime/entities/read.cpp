#include <fmt/format.h>

#include <algorithm>

#include "dataplane/switch/p4runtime/entities/cells.h"
#include "dataplane/switch/p4runtime/entities/entity_kinds.h"
#include "dataplane/switch/p4runtime/translate/translate.h"

namespace tiercast::vswitch {
namespace {

using p4::v1::Entity;

void restore(const Annotations::Entry& from, p4::v1::TableEntry& to) {
  to.set_controller_metadata(from.controller_metadata);
  to.set_metadata(from.metadata);
}

// The entries of a table with the filter's match, and with its priority if it has one.
std::vector<engine::TableEntry> entries_with_key(const Target& target,
                                                 const ProgramInfo::Table& table,
                                                 const p4::v1::TableEntry& filter) {
  if (filter.match_size() == 0) return value_of(target.pipeline.read_entries(table.name));
  const bool any_priority = table.needs_priority && filter.priority() == 0;
  if (!any_priority) {
    auto found = target.pipeline.read_entry(table.name, entry_key(table, filter));
    if (found.status().code() == engine::ErrorCode::kNotFound) return {};
    return {value_of(std::move(found))};
  }
  p4::v1::TableEntry complete = filter;
  complete.set_priority(1);
  engine::TableEntry key = entry_key(table, complete);
  std::vector<engine::TableEntry> entries = value_of(target.pipeline.read_entries(table.name));
  std::erase_if(entries, [&](const engine::TableEntry& entry) {
    key.priority = entry.priority;
    return identity(table, key) != identity(table, entry);
  });
  return entries;
}

// Calls use(entry, its message) for the entries of one table that `filter` selects.
template <class Use>
void select_entries(const Target& target, const ProgramInfo::Table& table,
                    const p4::v1::TableEntry& filter, const Use& use) {
  for (const engine::TableEntry& entry : entries_with_key(target, table, filter)) {
    p4::v1::TableEntry message = entry_message(target.annotations, table, entry);
    if (filter.priority() != 0 && filter.priority() != entry.priority) continue;
    if (filter.has_action() &&
        filter.action().action().action_id() != message.action().action().action_id())
      continue;
    if (filter.controller_metadata() != 0 &&
        filter.controller_metadata() != message.controller_metadata())
      continue;
    if (!filter.metadata().empty() && filter.metadata() != message.metadata()) continue;
    use(entry, std::move(message));
  }
}

// An entry as Read returns it, with those of its direct resources that the request asks for.
Entity entry_entity(const ProgramInfo::Table& table, const p4::v1::TableEntry& request,
                    const engine::TableEntry& entry, p4::v1::TableEntry&& message) {
  Entity out;
  message.set_is_const(table.is_const);
  if (request.has_counter_data() && entry.counter)
    *message.mutable_counter_data() = counter_data(*entry.counter);
  if (request.has_meter_config() && entry.meter)
    *message.mutable_meter_config() = meter_message(table.meter_type, *entry.meter);
  if (request.has_time_since_last_hit() && table.has_idle_timeout)
    message.mutable_time_since_last_hit()->set_elapsed_ns(entry.idle_ns);
  *out.mutable_table_entry() = std::move(message);
  return out;
}

std::vector<const ProgramInfo::Table*> selected_tables(const ProgramInfo& info, std::uint32_t id) {
  std::vector<const ProgramInfo::Table*> tables;
  if (id != 0) return {&info.table(id)};
  for (const auto& [table_id, table] : info.tables()) tables.push_back(&table);
  return tables;
}

void read_default(const Target& target, const ProgramInfo::Table& table, const EntitySink& sink) {
  Entity out;
  p4::v1::TableEntry& message = *out.mutable_table_entry();
  message.set_table_id(table.id);
  message.set_is_default_action(true);
  message.set_is_const(table.has_const_default());
  // "Default Entry": a constant NoAction in a table with an action profile.
  if (table.action_profile == 0)
    *message.mutable_action()->mutable_action() = action_message(
        "table " + table.name, table.actions, value_of(target.pipeline.default_action(table.name)));
  for (const auto& [id, use] : table.actions)
    if (table.action_profile != 0 && use.action->name == "NoAction")
      message.mutable_action()->mutable_action()->set_action_id(id);
  const auto notes = target.annotations.defaults.find(table.id);
  if (notes != target.annotations.defaults.end()) restore(notes->second, message);
  sink(std::move(out));
}

void read_table(const Target& target, const p4::v1::TableEntry& request, const EntitySink& sink) {
  const bool wildcard = request.table_id() == 0;
  refuse_meter_counters(request.has_meter_counter_data(), "table_entry");
  if (request.has_time_since_last_hit() && request.is_default_action())
    throw invalid("time_since_last_hit: default actions do not support idle timeouts");
  for (const ProgramInfo::Table* table : selected_tables(target.info, request.table_id())) {
    if (request.has_time_since_last_hit() && !wildcard && !table->has_idle_timeout)
      throw invalid(fmt::format("table {}: idle timeouts are not supported", table->name));
    if (request.is_default_action()) {
      read_default(target, *table, sink);
      continue;
    }
    if (table->fields.empty()) continue;
    const p4::v1::TableEntry everything;
    select_entries(target, *table, wildcard ? everything : request,
                   [&](const engine::TableEntry& entry, p4::v1::TableEntry&& message) {
                     sink(entry_entity(*table, request, entry, std::move(message)));
                   });
  }
}

// Calls use(table, entry, the message that names it) for the entries whose direct resource `filter`
// selects. resource: gives the resource's id in a table, 0 if there is none.
template <class Use>
void select_resources(const Target& target, const p4::v1::TableEntry& filter, const char* what,
                      std::uint32_t ProgramInfo::Table::* resource, const Use& use) {
  bool found = false;
  for (const ProgramInfo::Table* table : selected_tables(target.info, filter.table_id())) {
    if (table->*resource == 0 || table->fields.empty()) {
      if (filter.table_id() == 0) continue;
      throw invalid(fmt::format("table {} has no direct {}", table->name, what));
    }
    select_entries(target, *table, filter,
                   [&](const engine::TableEntry& entry, p4::v1::TableEntry&& message) {
                     found = true;
                     p4::v1::TableEntry key;
                     key.set_table_id(message.table_id());
                     *key.mutable_match() = message.match();
                     key.set_priority(message.priority());
                     use(*table, entry, std::move(key));
                   });
  }
  if (!found && filter.match_size() != 0)
    throw RequestError(grpc::NOT_FOUND, fmt::format("table {}: no such entry",
                                                    target.info.table(filter.table_id()).name));
}

void read_direct_counters(const Target& target, const p4::v1::DirectCounterEntry& request,
                          const EntitySink& sink) {
  select_resources(target, request.table_entry(), "counter", &ProgramInfo::Table::direct_counter,
                   [&](const auto&, const engine::TableEntry& entry, p4::v1::TableEntry&& key) {
                     Entity out;
                     p4::v1::DirectCounterEntry& counter = *out.mutable_direct_counter_entry();
                     *counter.mutable_table_entry() = std::move(key);
                     *counter.mutable_data() =
                         counter_data(entry.counter.value_or(engine::CounterValue()));
                     sink(std::move(out));
                   });
}

void read_direct_meters(const Target& target, const p4::v1::DirectMeterEntry& request,
                        const EntitySink& sink) {
  refuse_meter_counters(request.has_counter_data(), "direct_meter_entry");
  select_resources(target, request.table_entry(), "meter", &ProgramInfo::Table::direct_meter,
                   [&](const ProgramInfo::Table& table, const engine::TableEntry& entry,
                       p4::v1::TableEntry&& key) {
                     Entity out;
                     p4::v1::DirectMeterEntry& meter = *out.mutable_direct_meter_entry();
                     *meter.mutable_table_entry() = std::move(key);
                     if (entry.meter)
                       *meter.mutable_config() = meter_message(table.meter_type, *entry.meter);
                     sink(std::move(out));
                   });
}

void read_counters(const Target& target, const p4::v1::CounterEntry& request, CellTurn& turn,
                   const EntitySink& sink) {
  if (request.counter_id() != 0) target.info.counter(request.counter_id());
  select_cells(target.info.counters(), request.counter_id(), request, turn,
               [&](const ProgramInfo::Array& array, std::uint64_t index) {
                 Entity out;
                 p4::v1::CounterEntry& entry = *out.mutable_counter_entry();
                 entry.set_counter_id(array.id);
                 entry.mutable_index()->set_index(static_cast<std::int64_t>(index));
                 *entry.mutable_data() =
                     counter_data(value_of(target.pipeline.read_counter(array.name, index)));
                 sink(std::move(out));
               });
}

void read_registers(const Target& target, const p4::v1::RegisterEntry& request, CellTurn& turn,
                    const EntitySink& sink) {
  if (request.register_id() != 0) target.info.register_array(request.register_id());
  select_cells(target.info.registers(), request.register_id(), request, turn,
               [&](const ProgramInfo::Array& array, std::uint64_t index) {
                 if (array.width == 0) {
                   if (request.register_id() == 0) return;
                   throw RequestError(
                       grpc::UNIMPLEMENTED,
                       fmt::format("register {}: only bit<W> cells can be read", array.name));
                 }
                 Entity out;
                 p4::v1::RegisterEntry& entry = *out.mutable_register_entry();
                 entry.set_register_id(array.id);
                 entry.mutable_index()->set_index(static_cast<std::int64_t>(index));
                 entry.mutable_data()->set_bitstring(
                     value_of(target.pipeline.read_register(array.name, index)));
                 sink(std::move(out));
               });
}

void read_multicast_groups(const Target& target, const p4::v1::MulticastGroupEntry& request,
                           const EntitySink& sink) {
  if (request.multicast_group_id() != 0)
    require(target.pipeline.multicast_group(request.multicast_group_id()).status());
  for (const std::uint32_t group : target.pipeline.multicast_groups()) {
    if (request.multicast_group_id() != 0 && request.multicast_group_id() != group) continue;
    const Annotations::Group& notes = target.annotations.groups[group];
    Entity out;
    p4::v1::MulticastGroupEntry& entry =
        *out.mutable_packet_replication_engine_entry()->mutable_multicast_group_entry();
    entry.set_multicast_group_id(group);
    entry.set_metadata(notes.metadata);
    add_replicas(value_of(target.pipeline.multicast_group(group)), notes.port_bytes,
                 *entry.mutable_replicas());
    sink(std::move(out));
  }
}

void read_clone_sessions(const Target& target, const p4::v1::CloneSessionEntry& request,
                         const EntitySink& sink) {
  if (request.session_id() != 0)
    require(target.pipeline.clone_session(request.session_id()).status());
  for (const std::uint32_t session : target.pipeline.clone_sessions()) {
    if (request.session_id() != 0 && request.session_id() != session) continue;
    const engine::CloneSession config = value_of(target.pipeline.clone_session(session));
    Entity out;
    p4::v1::CloneSessionEntry& entry =
        *out.mutable_packet_replication_engine_entry()->mutable_clone_session_entry();
    entry.set_session_id(session);
    entry.set_packet_length_bytes(config.packet_length);
    add_replicas(config.replicas, target.annotations.clone_sessions[session].port_bytes,
                 *entry.mutable_replicas());
    sink(std::move(out));
  }
}

void read_replication(const Target& target, const p4::v1::PacketReplicationEngineEntry& request,
                      const EntitySink& sink) {
  if (!request.has_clone_session_entry())
    read_multicast_groups(target, request.multicast_group_entry(), sink);
  if (!request.has_multicast_group_entry())
    read_clone_sessions(target, request.clone_session_entry(), sink);
}

// Removes the entries that the program begins with and that were removed since.
void add_removed(const Target& target, const ProgramInfo::Table& table,
                 std::vector<p4::v1::Update>& updates) {
  for (const engine::TableEntry& entry : table.initial_entries) {
    if (target.pipeline.read_entry(table.name, entry).ok()) continue;
    p4::v1::Update& update = updates.emplace_back();
    update.set_type(p4::v1::Update::DELETE);
    *update.mutable_entity()->mutable_table_entry() = table_entry(table, entry);
  }
}

bool is_zero(const p4::v1::CounterData& data) {
  return data.packet_count() == 0 && data.byte_count() == 0;
}

// Whether a cell, resource or value set is still as in a new switch.
bool is_initial(const Entity& entity) {
  switch (entity.entity_case()) {
    case Entity::kCounterEntry: return is_zero(entity.counter_entry().data());
    case Entity::kDirectCounterEntry: return is_zero(entity.direct_counter_entry().data());
    case Entity::kRegisterEntry:
      return entity.register_entry().data().bitstring() == std::string(1, '\0');
    case Entity::kDirectMeterEntry: return !entity.direct_meter_entry().has_config();
    case Entity::kMeterEntry: return !entity.meter_entry().has_config();
    case Entity::kValueSetEntry: return entity.value_set_entry().members_size() == 0;
    default: return false;
  }
}

}  // namespace

p4::v1::TableEntry entry_message(const Annotations& annotations, const ProgramInfo::Table& table,
                                 const engine::TableEntry& entry) {
  p4::v1::TableEntry message = table_entry(table, entry);
  const auto notes = annotations.entries.find(identity(table, entry));
  const bool noted = notes != annotations.entries.end();
  if (noted) restore(notes->second, message);
  if (table.action_profile == 0) {
    *message.mutable_action()->mutable_action() =
        action_message("table " + table.name, table.actions, entry.action);
  } else {
    *message.mutable_action() = indirect_action(
        entry, noted && notes->second.action_set ? &*notes->second.action_set : nullptr);
  }
  return message;
}

Entity read_entry(const Target& target, const p4::v1::TableEntry& request) {
  const ProgramInfo::Table& table = target.info.table(request.table_id());
  const engine::TableEntry entry =
      value_of(target.pipeline.read_entry(table.name, entry_key(table, request)));
  return entry_entity(table, request, entry, entry_message(target.annotations, table, entry));
}

void read_entities(const Target& target, const Entity& request, CellTurn& turn,
                   const EntitySink& sink) {
  switch (request.entity_case()) {
    case Entity::kTableEntry: return read_table(target, request.table_entry(), sink);
    case Entity::kDirectCounterEntry:
      return read_direct_counters(target, request.direct_counter_entry(), sink);
    case Entity::kDirectMeterEntry:
      return read_direct_meters(target, request.direct_meter_entry(), sink);
    case Entity::kCounterEntry: return read_counters(target, request.counter_entry(), turn, sink);
    case Entity::kRegisterEntry:
      return read_registers(target, request.register_entry(), turn, sink);
    case Entity::kMeterEntry: return read_meters(target, request.meter_entry(), turn, sink);
    case Entity::kActionProfileMember:
      return read_members(target, request.action_profile_member(), sink);
    case Entity::kActionProfileGroup:
      return read_action_groups(target, request.action_profile_group(), sink);
    case Entity::kDigestEntry: return read_digests(target, request.digest_entry(), sink);
    case Entity::kValueSetEntry: return read_value_sets(target, request.value_set_entry(), sink);
    case Entity::kPacketReplicationEngineEntry:
      return read_replication(target, request.packet_replication_engine_entry(), sink);
    case Entity::ENTITY_NOT_SET: throw invalid("the entity to read is not set");
    default: throw RequestError(grpc::UNIMPLEMENTED, "extern entries are not supported");
  }
}

std::vector<p4::v1::Update> snapshot(const Target& target) {
  std::vector<p4::v1::Update> updates;
  const auto add_all = [&](p4::v1::Update::Type type, const Entity& request) {
    read_entities(target, request, [&](Entity&& entity) {
      if (is_initial(entity)) return;
      p4::v1::Update& update = updates.emplace_back();
      update.set_type(type);
      *update.mutable_entity() = std::move(entity);
    });
  };
  // Members and groups come before the entries that refer to them.
  Entity members, groups;
  members.mutable_action_profile_member();
  groups.mutable_action_profile_group();
  add_all(p4::v1::Update::INSERT, members);
  add_all(p4::v1::Update::INSERT, groups);
  for (const auto& [id, table] : target.info.tables()) {
    Entity request;
    p4::v1::TableEntry& entry = *request.mutable_table_entry();
    entry.set_table_id(id);
    entry.mutable_counter_data();
    entry.mutable_meter_config();
    if (!table.is_const) {
      add_all(p4::v1::Update::INSERT, request);
      add_removed(target, table, updates);
    } else {  // of constant entries, what can be written
      Entity counters, meters;
      counters.mutable_direct_counter_entry()->mutable_table_entry()->set_table_id(id);
      meters.mutable_direct_meter_entry()->mutable_table_entry()->set_table_id(id);
      if (table.direct_counter != 0) add_all(p4::v1::Update::MODIFY, counters);
      if (table.direct_meter != 0) add_all(p4::v1::Update::MODIFY, meters);
    }
    entry.set_is_default_action(true);
    if (!table.has_const_default()) add_all(p4::v1::Update::MODIFY, request);
  }
  Entity replication, digests, counters, registers, meters, value_sets;
  replication.mutable_packet_replication_engine_entry();
  digests.mutable_digest_entry();
  add_all(p4::v1::Update::INSERT, replication);
  add_all(p4::v1::Update::INSERT, digests);
  counters.mutable_counter_entry();
  registers.mutable_register_entry();
  meters.mutable_meter_entry();
  value_sets.mutable_value_set_entry();
  for (const Entity& request : {counters, registers, meters, value_sets})
    add_all(p4::v1::Update::MODIFY, request);
  return updates;
}

void replay(const std::vector<p4::v1::Update>& updates, const Target& target) {
  for (const p4::v1::Update& update : updates) {
    try {
      write_update(target, update);
    } catch (const RequestError& error) {
      // Removed already, or of a constant entry that the program has no more.
      const bool gone = update.type() == p4::v1::Update::DELETE ||
                        update.entity().has_direct_counter_entry() ||
                        update.entity().has_direct_meter_entry();
      if (gone && error.code() == grpc::NOT_FOUND) continue;
      if (error.code() != grpc::ALREADY_EXISTS) throw;
      p4::v1::Update again = update;
      again.set_type(p4::v1::Update::MODIFY);
      write_update(target, again);
    }
  }
}

}  // namespace tiercast::vswitch
