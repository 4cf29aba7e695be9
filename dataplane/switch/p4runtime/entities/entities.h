// Writes and reads P4Runtime entities on an engine's switch. All of this must run where the switch
// may be touched: on the data-plane thread, or on a switch that does not carry traffic yet.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "dataplane/switch/p4runtime/translate/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// What P4Runtime promises to return with an entity although the engine does not need it.
struct Annotations {
  struct Entry {
    std::uint64_t controller_metadata = 0;
    std::string metadata;
    std::optional<p4::v1::ActionProfileActionSet> action_set;  // as written
    bool empty() const { return controller_metadata == 0 && metadata.empty() && !action_set; }
  };
  struct Group {
    std::string metadata;
    bool port_bytes = false;  // replicas were written with `port`, not with `egress_port`
  };
  std::map<std::string, Entry> entries;     // by identity()
  std::map<std::uint32_t, Entry> defaults;  // by table
  std::map<std::uint32_t, Group> groups;
  std::map<std::uint32_t, Group> clone_sessions;
  // As written, by profile and group.
  std::map<std::pair<std::uint32_t, std::uint32_t>, p4::v1::ActionProfileGroup> action_groups;
};

// The state that Write and Read work on.
struct Target {
  const ProgramInfo& info;
  engine::Switch& pipeline;
  Annotations& annotations;
};

// Performs one update of a Write. If it throws RequestError, nothing has changed.
void write_update(const Target& target, const p4::v1::Update& update);

// An entry with its action and annotations, but without its direct resources.
p4::v1::TableEntry entry_message(const Annotations& annotations, const ProgramInfo::Table& table,
                                 const engine::TableEntry& entry);

using EntitySink = std::function<void(p4::v1::Entity&&)>;
// Which of the cells (of counters, registers and meters) that a read selects are read now, so that
// packets get their turn between parts of many.
struct CellTurn {
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t skip = 0;     // those of earlier turns
  std::uint64_t most = kAll;  // of this one
  bool more = false;          // the read left others, for which this is then the next turn
};
// Passes the entities that one entity of a ReadRequest selects to `sink`: of cells those of the
// turn, else all. Throws RequestError.
void read_entities(const Target& target, const p4::v1::Entity& request, CellTurn& turn,
                   const EntitySink& sink);
inline void read_entities(const Target& target, const p4::v1::Entity& request,
                          const EntitySink& sink) {
  CellTurn all;
  read_entities(target, request, all, sink);
}
// The entry with the request's match and priority, which are both complete. Throws RequestError.
p4::v1::Entity read_entry(const Target& target, const p4::v1::TableEntry& request);

// The updates that give the whole state of this switch to a new switch with the same program:
// members and groups of action profiles, entries, default actions, multicast groups, sessions,
// digests, value sets, configured meters, non-zero counters and registers.
std::vector<p4::v1::Update> snapshot(const Target& target);
// Performs a snapshot's updates on a new switch, whose program may be another one. Entries that it
// begins with are changed or removed as the snapshot says. Throws RequestError.
void replay(const std::vector<p4::v1::Update>& snapshot, const Target& target);

}  // namespace tiercast::vswitch
