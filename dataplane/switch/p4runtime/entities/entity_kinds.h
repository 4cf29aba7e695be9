// What write.cpp and read.cpp share: the kinds of entities that have files of their own. For errors
// and threads, see entities.h.
#pragma once

#include <optional>
#include <string>

#include "dataplane/switch/p4runtime/entities/entities.h"
#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {

template <class T>
T value_of(engine::Result<T>&& result) {
  require(result.status());
  return std::move(result).value();
}

// Throws INVALID_ARGUMENT if the type is not MODIFY.
void require_modify(p4::v1::Update::Type type, const std::string& place);

// --- meters.cpp ---
engine::MeterConfig meter_config(ProgramInfo::MeterType type, const p4::v1::MeterConfig& config,
                                 const std::string& place);
p4::v1::MeterConfig meter_message(ProgramInfo::MeterType type, const engine::MeterConfig& config);
// Meters do not count packets. UNIMPLEMENTED if the message contains counter data.
inline void refuse_meter_counters(bool given, const std::string& place) {
  if (given) throw RequestError(grpc::UNIMPLEMENTED, place + ": meters do not count packets");
}
void write_meter(const Target& target, p4::v1::Update::Type type, const p4::v1::MeterEntry& entry);
void read_meters(const Target& target, const p4::v1::MeterEntry& request, CellTurn& turn,
                 const EntitySink& sink);

// --- action_profiles.cpp --- Sets what an entry does in a table with an action profile: a member,
// a group or an action set. old: the entry that is replaced, or null. written: the action set in
// canonical form.
void set_indirect_action(const Target& target, const ProgramInfo::Table& table,
                         const p4::v1::TableAction& action, const engine::TableEntry* old,
                         engine::TableEntry& entry, p4::v1::ActionProfileActionSet& written);
// The same as a message. written: its action set, or null.
p4::v1::TableAction indirect_action(const engine::TableEntry& entry,
                                    const p4::v1::ActionProfileActionSet* written);
void write_member(const Target& target, p4::v1::Update::Type type,
                  const p4::v1::ActionProfileMember& entry);
void write_action_group(const Target& target, p4::v1::Update::Type type,
                        const p4::v1::ActionProfileGroup& entry);
void read_members(const Target& target, const p4::v1::ActionProfileMember& request,
                  const EntitySink& sink);
void read_action_groups(const Target& target, const p4::v1::ActionProfileGroup& request,
                        const EntitySink& sink);

// --- digests.cpp ---
void write_digest(const Target& target, p4::v1::Update::Type type,
                  const p4::v1::DigestEntry& entry);
void read_digests(const Target& target, const p4::v1::DigestEntry& request, const EntitySink& sink);

// --- value_sets.cpp ---
void write_value_set(const Target& target, p4::v1::Update::Type type,
                     const p4::v1::ValueSetEntry& entry);
void read_value_sets(const Target& target, const p4::v1::ValueSetEntry& request,
                     const EntitySink& sink);

}  // namespace tiercast::vswitch
