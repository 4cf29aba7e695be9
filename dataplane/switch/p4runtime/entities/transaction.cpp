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

// Cells (of counters, registers and meters) that one update of a transaction may change: each is
// read before, while no packet passes, and kept until the end.
constexpr std::uint64_t kCellsUndone = 65536;

// The entry that the update names, or null. Its default action is no entry here.
const p4::v1::TableEntry* entry_of(const Entity& entity) {
  switch (entity.entity_case()) {
    case Entity::kTableEntry:
      return entity.table_entry().is_default_action() ? nullptr : &entity.table_entry();
    case Entity::kDirectCounterEntry: return &entity.direct_counter_entry().table_entry();
    case Entity::kDirectMeterEntry: return &entity.direct_meter_entry().table_entry();
    default: return nullptr;
  }
}

// The entry with this key, with everything besides its action.
Entity whole_entry(const Target& target, const p4::v1::TableEntry& key) {
  p4::v1::TableEntry request;
  request.set_table_id(key.table_id());
  *request.mutable_match() = key.match();
  request.set_priority(key.priority());
  request.mutable_counter_data();
  request.mutable_meter_config();
  Entity found = read_entry(target, request);
  found.mutable_table_entry()->clear_is_const();  // may not be written
  return found;
}

}  // namespace

std::vector<Update> inverse(const Target& target, const Update& update) {
  std::vector<Update> updates;
  if (update.type() == Update::INSERT) {
    updates.push_back(update);
    updates.back().set_type(Update::DELETE);
    return updates;
  }
  const auto add = [&](Entity&& found) {
    Update& back = updates.emplace_back();
    back.set_type(update.type() == Update::DELETE ? Update::INSERT : Update::MODIFY);
    *back.mutable_entity() = std::move(found);
  };
  const p4::v1::TableEntry* entry = entry_of(update.entity());
  if (entry == nullptr) {
    CellTurn cells{.most = kCellsUndone};
    read_entities(target, update.entity(), cells, add);  // which ignores what is not a key
    if (cells.more)
      throw RequestError(grpc::RESOURCE_EXHAUSTED,
                         fmt::format("an update of more than {} cells cannot be undone; valid: an "
                                     "index, or CONTINUE_ON_ERROR",
                                     kCellsUndone));
    return updates;
  }
  add(whole_entry(target, *entry));
  // The action of a constant entry cannot be written, and was not.
  if (updates[0].type() == Update::MODIFY && !update.entity().table_entry().has_action())
    updates[0].mutable_entity()->mutable_table_entry()->clear_action();
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
      } catch (const RequestError& error) {
        if (error.code() == grpc::RESOURCE_EXHAUSTED) throw;
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
