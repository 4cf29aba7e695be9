// A port's accounts: what was handed to its queue and what became of it, by session and layer.
//
// There are two counts, independent of each other. The engine's traffic manager counts what enters
// a queue, what the queue drops and what waits. The P4 program, whose egress runs when a packet's
// turn comes, counts what leaves and what it drops itself (`egress_fates`, docs/p4.md). So every
// packet is accounted for exactly, at any time between two calls of the switch, for each session
// and layer:
//
//   entered = left + queue_drops + policy_drops + pruned + down_drops + waiting
//
// and behind the queue, at each port: left + duplicated = transmitted + link_losses + on the wire.
//
// A policy is the program's, or RED on arrival, which is the queue's. What the latter drops and
// marks is counted by the traffic manager.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::accounts {

// For the engine::Switch::Options of a switch whose accounts are to be read. The label is 1 +
// (session << 3 | rank) for an IPv4 packet to a session's group, and 0 for any other.
engine::LabelRule by_group();

// Packets since the program was set.
struct Counts {
  // Counted by the traffic manager.
  std::uint64_t entered = 0;  // handed to the port's queue; replicas and clones count separately
  std::uint64_t queue_drops = 0;  // the queue was full
  std::uint64_t waiting = 0;      // in the queue now, without the packet in service
  std::uint64_t down_drops = 0;   // lost before their service, because the link was down
  std::uint64_t link_losses = 0;  // of those that left: lost on the wire
  std::uint64_t duplicated = 0;   // copies that the wire made
  // Counted by the program, and for RED on arrival by the traffic manager; of a program without
  // such counters all by the traffic manager, which sees what egress drops and marks CE.
  std::uint64_t left = 0;
  std::uint64_t marked = 0;        // of those that left: marked CE here
  std::uint64_t policy_drops = 0;  // by the port's policy (RED, drop tail)
  // Replicas that would have left through the port on which they arrived. Of a program without
  // counters they are among policy_drops, with what it sends round again.
  std::uint64_t pruned = 0;

  bool balanced() const {
    return entered == left + queue_drops + policy_drops + pruned + down_drops + waiting;
  }
  Counts& operator+=(const Counts& other);
  bool operator==(const Counts&) const = default;
};

// session -1, layer -1: all that belongs to no session, such as feedback and TCP, and groups that
// the program counts together with these.
struct SessionCounts {
  int session = -1;  // 0..32767
  int layer = -1;    // the group's rank, 0..7
  Counts counts;
  bool operator==(const SessionCounts&) const = default;
};

// What became of the packets that arrived on a port. Packets to the controller or into an
// aggregator are not included.
struct IngressCounts {
  std::uint64_t forwarded = 0;
  std::uint64_t invalid = 0;   // bad header, checksum or length
  std::uint64_t expired = 0;   // time to live is over
  std::uint64_t no_group = 0;  // nobody subscribes
  std::uint64_t no_route = 0;
  std::uint64_t refused = 0;  // not from where it claims to be
  std::uint64_t policed = 0;  // IGMP above its port's rate
  bool operator==(const IngressCounts&) const = default;
};

struct PortAccounts {
  // Whether the program counts fates. If not, `pruned` and `ingress` are 0, and `balanced` says
  // nothing of the program.
  bool by_program = false;
  Counts total;
  IngressCounts ingress;
  std::vector<SessionCounts> sessions;  // those with packets; by session, then layer

  bool balanced() const;
};

// The port must exist or have existed.
PortAccounts read(const engine::Switch& from, std::uint32_t port);

// The name of the port's policy (`red`, `drop_tail`, ...); empty if it has none.
std::string policy(const engine::Switch& of, std::uint32_t port);

}  // namespace tiercast::accounts
