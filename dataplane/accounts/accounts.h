// A port's accounts: what was handed to its queue, and what became of it, by session and layer.
//
// Two count, each for itself: the engine's traffic manager what enters a queue, what the queue
// drops and what waits; the P4 program, whose egress runs when a packet's turn comes, what leaves
// and what it drops itself (`egress_fates`, docs/p4.md). So that every packet is accounted for,
// exactly, at any time between two calls of the switch, for each session and layer:
//
//   entered = left + queue_drops + policy_drops + pruned + waiting
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::accounts {

// For engine::Switch::Options, of a switch whose accounts are to be read: 1 + (session << 3 | rank)
// of an IPv4 packet to a session's group, 0 of any other.
engine::LabelRule by_group();

// Packets since the program was set.
struct Counts {
  // By the traffic manager.
  std::uint64_t entered = 0;      // handed to the port's queue, replicas and clones each for itself
  std::uint64_t queue_drops = 0;  // the queue was full
  std::uint64_t waiting = 0;      // in the queue now; the one in service has left it
  // By the program.
  std::uint64_t left = 0;
  std::uint64_t marked = 0;        // of those that left: got CE here
  std::uint64_t policy_drops = 0;  // by the port's policy (RED, drop tail)
  std::uint64_t pruned = 0;        // replicas that would have left where they came in

  bool balanced() const { return entered == left + queue_drops + policy_drops + pruned + waiting; }
  Counts& operator+=(const Counts& other);
  bool operator==(const Counts&) const = default;
};

// session -1, layer -1: all that is no session's, such as feedback and TCP; and groups that the
// program counts with these.
struct SessionCounts {
  int session = -1;  // 0..32767
  int layer = -1;    // the group's rank, 0..7
  Counts counts;
  bool operator==(const SessionCounts&) const = default;
};

// What became of the packets that came in through a port; what went to the controller, or into an
// aggregator, is in none of these.
struct IngressCounts {
  std::uint64_t forwarded = 0;
  std::uint64_t invalid = 0;   // header, checksum or length
  std::uint64_t expired = 0;   // time to live
  std::uint64_t no_group = 0;  // nobody subscribes
  std::uint64_t no_route = 0;
  bool operator==(const IngressCounts&) const = default;
};

struct PortAccounts {
  // Whether the program counts fates. Without, only the traffic manager's figures are there.
  bool by_program = false;
  Counts total;
  IngressCounts ingress;
  std::vector<SessionCounts> sessions;  // where something entered; by session, then layer

  bool balanced() const;
};

// Of a port that exists, or did.
PortAccounts read(const engine::Switch& from, std::uint32_t port);

// What the port's policy is called in the program (`red`, `drop_tail`, ...); empty without one.
std::string policy(const engine::Switch& of, std::uint32_t port);

}  // namespace tiercast::accounts
