#include "dataplane/switch/p4runtime/entities/transaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dataplane/switch/p4runtime/translate/errors.h"
#include "dataplane/switch/p4runtime/translate/translate.h"

namespace tiercast::vswitch {
namespace {

using p4::v1::Entity;
using p4::v1::Update;

// A query for the entry with this key, with everything besides its action.
Entity entry_query(const p4::v1::TableEntry& entry) {
  Entity query;
  p4::v1::TableEntry& filter = *query.mutable_table_entry();
  filter.set_table_id(entry.table_id());
  filter.set_is_default_action(entry.is_default_action());
  *filter.mutable_match() = entry.match();
  filter.set_priority(entry.priority());
  filter.mutable_counter_data();
  filter.mutable_meter_config();
  return query;
}

Entity query_for(const Entity& entity) {
  Entity query;
  switch (entity.entity_case()) {
    case Entity::kTableEntry: return entry_query(entity.table_entry());
    case Entity::kDirectCounterEntry:
      return entry_query(entity.direct_counter_entry().table_entry());
    case Entity::kDirectMeterEntry: return entry_query(entity.direct_meter_entry().table_entry());
    default: return entity;  // a read ignores what is not a key
  }
}

// A read without match fields selects more than the entry that has none.
bool is_same_entry(const Target& target, const Entity& query, const Entity& found) {
  if (!query.has_table_entry() || query.table_entry().is_default_action()) return true;
  const ProgramInfo::Table& table = target.info.table(query.table_entry().table_id());
  return identity(table, entry_key(table, query.table_entry())) ==
         identity(table, entry_key(table, found.table_entry()));
}

}  // namespace

std::vector<Update> inverse(const Target& target, const Update& update) {
  std::vector<Update> updates;
  if (update.type() == Update::INSERT) {
    updates.push_back(update);
    updates.back().set_type(Update::DELETE);
    return updates;
  }
  const Entity query = query_for(update.entity());
  read_entities(target, query, [&](Entity&& found) {
    if (!is_same_entry(target, query, found)) return;
    Update& back = updates.emplace_back();
    back.set_type(update.type() == Update::DELETE ? Update::INSERT : Update::MODIFY);
    *back.mutable_entity() = std::move(found);
    // The action of a constant entry cannot be written, and was not.
    if (back.entity().has_table_entry() && !update.entity().table_entry().has_action() &&
        back.type() == Update::MODIFY && !back.entity().table_entry().is_default_action())
      back.mutable_entity()->mutable_table_entry()->clear_action();
  });
  return updates;
}

std::vector<grpc::Status> write_all_or_none(
    const Target& target, const google::protobuf::RepeatedPtrField<Update>& updates) {
  std::vector<Update> undo;
  int done = 0;
  try {
    for (; done < updates.size(); ++done) {
      std::vector<Update> back;
      try {
        back = inverse(target, updates[done]);
      } catch (const RequestError&) {
        // An entry that cannot be read cannot be written either. The write gives the better error.
      }
      write_update(target, updates[done]);
      std::move(back.begin(), back.end(), std::back_inserter(undo));
    }
    return std::vector<grpc::Status>(static_cast<std::size_t>(done), grpc::Status::OK);
  } catch (const RequestError& error) {
    for (auto back = undo.rbegin(); back != undo.rend(); ++back) write_update(target, *back);
    const grpc::Status aborted(grpc::ABORTED,
                               fmt::format("undone or not attempted: update {} failed", done));
    std::vector<grpc::Status> results(static_cast<std::size_t>(updates.size()), aborted);
    results[static_cast<std::size_t>(done)] = error.status();
    return results;
  }
}

}  // namespace tiercast::vswitch
