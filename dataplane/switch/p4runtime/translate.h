// P4Runtime's messages to the engine's control types and back, by P4Info. No state.
// Wrong input throws RequestError with the code that the P4Runtime specification asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/control.h"
#include "dataplane/switch/p4runtime/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// Match fields and priority; the action is left empty.
engine::TableEntry entry_key(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry);

engine::ActionCall action_call(const ProgramInfo::Table& table, const p4::v1::TableAction& action,
                               bool is_default);

engine::CounterValue counter_value(const p4::v1::CounterData& data);

// Table, key fields and priority as one string: the same for the same entry, however it was
// written.
std::string identity(const ProgramInfo::Table& table, const engine::TableEntry& entry);

// Without counter data.
p4::v1::TableEntry table_entry(const ProgramInfo::Table& table, const engine::TableEntry& entry);
p4::v1::TableEntry default_entry(const ProgramInfo::Table& table, const engine::ActionCall& action);
p4::v1::CounterData counter_data(const engine::CounterValue& value);

std::vector<engine::Replica> replicas(
    const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list, const std::string& place);
// with_port_bytes: write `port` (bytes) rather than the older `egress_port`.
void add_replicas(const std::vector<engine::Replica>& list, bool with_port_bytes,
                  google::protobuf::RepeatedPtrField<p4::v1::Replica>& out);
// Whether the list uses `port` (bytes).
bool uses_port_bytes(const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list);

}  // namespace tiercast::vswitch
