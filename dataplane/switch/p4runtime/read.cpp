#include <fmt/format.h>

#include <algorithm>

#include "dataplane/switch/p4runtime/entities.h"
#include "dataplane/switch/p4runtime/errors.h"
#include "dataplane/switch/p4runtime/translate.h"

namespace tiercast::vswitch {
namespace {

using p4::v1::Entity;

RequestError invalid(const std::string& message) { return {grpc::INVALID_ARGUMENT, message}; }

template <class T>
T value_of(engine::Result<T>&& result) {
  require(result.status());
  return std::move(result).value();
}

void restore(const Annotations::Entry& from, p4::v1::TableEntry& to) {
  to.set_controller_metadata(from.controller_metadata);
  to.set_metadata(from.metadata);
}

// Calls use(entry, its message) for the entries that `filter` selects of one table.
template <class Use>
void select_entries(const Target& target, const ProgramInfo::Table& table,
                    const p4::v1::TableEntry& filter, const Use& use) {
  const bool by_key = filter.match_size() != 0;
  // A priority of 0 selects any, so it cannot be part of the key that is compared.
  const bool any_priority = table.needs_priority && filter.priority() == 0;
  engine::TableEntry key;
  if (by_key) {
    p4::v1::TableEntry complete = filter;
    if (any_priority) complete.set_priority(1);
    key = entry_key(table, complete);
  }
  for (engine::TableEntry& entry : value_of(target.pipeline.read_entries(table.name))) {
    p4::v1::TableEntry message = table_entry(table, entry);
    const auto notes = target.annotations.entries.find(identity(table, entry));
    if (notes != target.annotations.entries.end()) restore(notes->second, message);
    if (by_key) {
      key.priority = any_priority ? entry.priority : filter.priority();
      if (identity(table, key) != identity(table, entry)) continue;
    }
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

std::vector<const ProgramInfo::Table*> selected_tables(const ProgramInfo& info, std::uint32_t id) {
  std::vector<const ProgramInfo::Table*> tables;
  if (id != 0) return {&info.table(id)};
  for (const auto& [table_id, table] : info.tables()) tables.push_back(&table);
  return tables;
}

void read_default(const Target& target, const ProgramInfo::Table& table, const EntitySink& sink) {
  Entity out;
  p4::v1::TableEntry& message = *out.mutable_table_entry();
  message = default_entry(table, value_of(target.pipeline.default_action(table.name)));
  const auto notes = target.annotations.defaults.find(table.id);
  if (notes != target.annotations.defaults.end()) restore(notes->second, message);
  sink(std::move(out));
}

void read_table(const Target& target, const p4::v1::TableEntry& request, const EntitySink& sink) {
  const bool wildcard = request.table_id() == 0;
  for (const ProgramInfo::Table* table : selected_tables(target.info, request.table_id())) {
    if (request.is_default_action()) {
      read_default(target, *table, sink);
      continue;
    }
    if (table->fields.empty()) continue;
    const p4::v1::TableEntry everything;
    select_entries(target, *table, wildcard ? everything : request,
                   [&](const engine::TableEntry& entry, p4::v1::TableEntry&& message) {
                     Entity out;
                     if (request.has_counter_data() && entry.counter)
                       *message.mutable_counter_data() = counter_data(*entry.counter);
                     *out.mutable_table_entry() = std::move(message);
                     sink(std::move(out));
                   });
  }
}

void read_direct_counters(const Target& target, const p4::v1::DirectCounterEntry& request,
                          const EntitySink& sink) {
  const p4::v1::TableEntry& filter = request.table_entry();
  bool found = false;
  for (const ProgramInfo::Table* table : selected_tables(target.info, filter.table_id())) {
    if (table->direct_counter == 0 || table->fields.empty()) {
      if (filter.table_id() == 0) continue;
      throw invalid(fmt::format("table {} has no direct counter", table->name));
    }
    select_entries(
        target, *table, filter, [&](const engine::TableEntry& entry, p4::v1::TableEntry&& message) {
          found = true;
          Entity out;
          p4::v1::DirectCounterEntry& counter = *out.mutable_direct_counter_entry();
          p4::v1::TableEntry& key = *counter.mutable_table_entry();
          key.set_table_id(message.table_id());
          *key.mutable_match() = message.match();
          key.set_priority(message.priority());
          *counter.mutable_data() = counter_data(entry.counter.value_or(engine::CounterValue()));
          sink(std::move(out));
        });
  }
  if (!found && filter.match_size() != 0)
    throw RequestError(grpc::NOT_FOUND, fmt::format("table {}: no such entry",
                                                    target.info.table(filter.table_id()).name));
}

// Calls use(array, index) for the cells that an id and index select; id 0: all arrays.
template <class Message, class Use>
void select_cells(const std::map<std::uint32_t, ProgramInfo::Array>& arrays, std::uint32_t id,
                  const Message& request, const Use& use) {
  for (const auto& [array_id, array] : arrays) {
    if (id != 0 && id != array_id) continue;
    if (!request.has_index() || id == 0) {
      for (std::uint64_t i = 0; i < array.size; ++i) use(array, i);
      continue;
    }
    const std::int64_t index = request.index().index();
    if (index < 0) throw invalid(fmt::format("{}: index {} is below 0", array.name, index));
    if (static_cast<std::uint64_t>(index) >= array.size)
      throw RequestError(grpc::OUT_OF_RANGE, fmt::format("{}: index {} is not one of 0 to {}",
                                                         array.name, index, array.size - 1));
    use(array, static_cast<std::uint64_t>(index));
  }
}

void read_counters(const Target& target, const p4::v1::CounterEntry& request,
                   const EntitySink& sink) {
  if (request.counter_id() != 0) target.info.counter(request.counter_id());
  select_cells(target.info.counters(), request.counter_id(), request,
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

void read_registers(const Target& target, const p4::v1::RegisterEntry& request,
                    const EntitySink& sink) {
  if (request.register_id() != 0) target.info.register_array(request.register_id());
  select_cells(target.info.registers(), request.register_id(), request,
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

void read_groups(const Target& target, const p4::v1::MulticastGroupEntry& request,
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
    read_groups(target, request.multicast_group_entry(), sink);
  if (!request.has_multicast_group_entry())
    read_clone_sessions(target, request.clone_session_entry(), sink);
}

bool is_zero(const Entity& entity) {
  if (entity.has_counter_entry())
    return entity.counter_entry().data().packet_count() == 0 &&
           entity.counter_entry().data().byte_count() == 0;
  return entity.has_register_entry() &&
         entity.register_entry().data().bitstring() == std::string(1, '\0');
}

}  // namespace

void read_entities(const Target& target, const Entity& request, const EntitySink& sink) {
  switch (request.entity_case()) {
    case Entity::kTableEntry: return read_table(target, request.table_entry(), sink);
    case Entity::kDirectCounterEntry:
      return read_direct_counters(target, request.direct_counter_entry(), sink);
    case Entity::kCounterEntry: return read_counters(target, request.counter_entry(), sink);
    case Entity::kRegisterEntry: return read_registers(target, request.register_entry(), sink);
    case Entity::kPacketReplicationEngineEntry:
      return read_replication(target, request.packet_replication_engine_entry(), sink);
    case Entity::ENTITY_NOT_SET: throw invalid("the entity to read is not set");
    default:
      throw RequestError(grpc::UNIMPLEMENTED,
                         "entity kind is not supported; supported: table_entry, "
                         "direct_counter_entry, counter_entry, register_entry, "
                         "packet_replication_engine_entry");
  }
}

std::vector<p4::v1::Update> snapshot(const Target& target) {
  std::vector<p4::v1::Update> updates;
  const auto add = [&](p4::v1::Update::Type type, Entity&& entity) {
    p4::v1::Update& update = updates.emplace_back();
    update.set_type(type);
    *update.mutable_entity() = std::move(entity);
  };
  for (const auto& [id, table] : target.info.tables()) {
    Entity request;
    request.mutable_table_entry()->set_table_id(id);
    request.mutable_table_entry()->mutable_counter_data();
    if (!table.is_const)
      read_entities(target, request,
                    [&](Entity&& entity) { add(p4::v1::Update::INSERT, std::move(entity)); });
    request.mutable_table_entry()->set_is_default_action(true);
    if (!table.const_default)
      read_entities(target, request,
                    [&](Entity&& entity) { add(p4::v1::Update::MODIFY, std::move(entity)); });
  }
  Entity replication, counters, registers;
  replication.mutable_packet_replication_engine_entry();
  counters.mutable_counter_entry();
  registers.mutable_register_entry();
  read_entities(target, replication,
                [&](Entity&& entity) { add(p4::v1::Update::INSERT, std::move(entity)); });
  for (const Entity& request : {counters, registers})
    read_entities(target, request, [&](Entity&& entity) {
      if (!is_zero(entity)) add(p4::v1::Update::MODIFY, std::move(entity));
    });
  return updates;
}

}  // namespace tiercast::vswitch
