// Writes and reads P4Runtime entities on an engine's switch. Everything here runs where the switch
// may be touched: on the data-plane thread, or on a switch that carries no traffic yet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dataplane/engine/switch.h"
#include "dataplane/switch/p4runtime/program_info.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

// What P4Runtime promises to give back of an entity, and the engine has no use for.
struct Annotations {
  struct Entry {
    std::uint64_t controller_metadata = 0;
    std::string metadata;
  };
  struct Group {
    std::string metadata;
    bool port_bytes = false;  // replicas were written with `port`, not `egress_port`
  };
  std::map<std::string, Entry> entries;     // by identity()
  std::map<std::uint32_t, Entry> defaults;  // by table
  std::map<std::uint32_t, Group> groups;
  std::map<std::uint32_t, Group> clone_sessions;
};

// The state behind Write and Read.
struct Target {
  const ProgramInfo& info;
  engine::Switch& pipeline;
  Annotations& annotations;
};

// One update of a Write. Throws RequestError, and has then changed nothing.
void write_update(const Target& target, const p4::v1::Update& update);

using EntitySink = std::function<void(p4::v1::Entity&&)>;
// All entities that one entity of a ReadRequest selects. Throws RequestError.
void read_entities(const Target& target, const p4::v1::Entity& request, const EntitySink& sink);

// Updates that give a switch fresh from the same program the whole state of this one: entries,
// default actions, groups, sessions, non-zero counters and registers.
std::vector<p4::v1::Update> snapshot(const Target& target);

}  // namespace tiercast::vswitch
