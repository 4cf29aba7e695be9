// Converts P4Runtime's messages to the engine's control types and back, with the help of P4Info. It
// has no state. Wrong input throws RequestError with the code that the P4Runtime specification asks
// for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/switch/p4runtime/translate/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// Converts the match fields and the priority; leaves the action empty.
engine::TableEntry entry_key(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry);

// actions: those of the table or action profile named by place.
engine::ActionCall action_call(const std::string& place, const ProgramInfo::ActionUses& actions,
                               const p4::v1::Action& action, bool is_default = false);
p4::v1::Action action_message(const std::string& place, const ProgramInfo::ActionUses& actions,
                              const engine::ActionCall& call);

// The match of a field. It may be given at most once, and may be missing if the field may be left
// out.
engine::FieldMatch field_match(
    const ProgramInfo::Field& field,
    const google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& matches,
    const std::string& place);
// Throws if a match is not of one of the fields.
void check_fields(const std::vector<ProgramInfo::Field>& fields,
                  const google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& matches,
                  const std::string& place);
// Leaves out fields that match any value.
void add_match(const ProgramInfo::Field& field, const engine::FieldMatch& match,
               google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& out);

engine::CounterValue counter_value(const p4::v1::CounterData& data);

// The table, key fields and priority as one string. It is the same for the same entry, however the
// entry was written.
std::string identity(const ProgramInfo::Table& table, const engine::TableEntry& entry);

// Without the action and the direct resources.
p4::v1::TableEntry table_entry(const ProgramInfo::Table& table, const engine::TableEntry& entry);
p4::v1::CounterData counter_data(const engine::CounterValue& value);

std::vector<engine::Replica> replicas(
    const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list, const std::string& place);
// with_port_bytes: write `port` (bytes) instead of the older `egress_port`.
void add_replicas(const std::vector<engine::Replica>& list, bool with_port_bytes,
                  google::protobuf::RepeatedPtrField<p4::v1::Replica>& out);
// Whether the list uses `port` (bytes).
bool uses_port_bytes(const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list);

}  // namespace tiercast::vswitch
