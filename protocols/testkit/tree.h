// A tree of routers with multicast groups. Node 0 is the root; every other node has one link from
// its parent and one to it. Hosts are attached to nodes. Joins and leaves travel upwards hop by
// hop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protocols/testkit/link.h"
#include "protocols/testkit/packet.h"
#include "protocols/testkit/simulator.h"

namespace tiercast::testkit {

// What a node does with packets besides forwarding them, such as aggregation.
class Relay {
 public:
  virtual ~Relay() = default;
  // Called with each packet that reaches the node or starts there. Return true to consume the
  // packet.
  virtual bool take(const Packet& packet) = 0;
};

class Tree {
 public:
  using Node = std::uint32_t;

  // `parents[i]` is the parent of node i and smaller than i; parents[0] is ignored. All links start
  // as `links` says. A node acts on its host's report after `control_delay`; each further hop takes
  // the propagation delay of its link.
  Tree(Simulator& simulator, std::vector<Node> parents, const LinkConfig& links,
       Duration control_delay);
  ~Tree();

  // Figure 1 of SIM: the children of i are 2i+1 and 2i+2; nodes leaves-1 .. 2*leaves-2 are the
  // leaves.
  static std::vector<Node> balanced_parents(unsigned leaves);

  Node size() const { return static_cast<Node>(parents_.size()); }
  Link& down(Node child) { return *down_[child]; }  // parent -> child
  Link& up(Node child) { return *up_[child]; }      // child -> parent, without marking

  // Both directions.
  void set_rate(Node child, Rate rate);
  // Both directions; upwards without marking and RED. To be called before anything is sent.
  void configure(Node child, const LinkConfig& link);

  // The host gets the packets of one session that are sent to the node or to groups that it joined.
  // nullptr detaches.
  void attach(Node node, std::uint16_t session, PacketSink* host);
  // Sends from the host at `from` into the network.
  void send(Node from, const Packet& packet);
  // nullptr detaches.
  void set_relay(Node node, Relay* relay) { relays_[node] = relay; }
  // Sends from the relay at `from` into the network.
  void pass_on(Node from, const Packet& packet);
  void join(Node node, std::uint16_t session, Rank rank);
  void leave(Node node, std::uint16_t session, Rank rank);

  // `callback` is called when the highest rank with a subscriber changes at the root (-1: none).
  void on_membership(std::uint16_t session, std::function<void(int top)> callback);
  unsigned subscribers(std::uint16_t session, Rank rank) const;  // hosts that have joined

 private:
  using Group = std::pair<std::uint16_t, Rank>;
  class Port;
  static LinkConfig upward(LinkConfig link);

  void forward(Node node, const Packet& packet);
  void deliver(Node node, std::uint16_t session, const Packet& packet);
  // The node's own host has said whether it is a member.
  void report(Node node, Group group, bool member);
  // Whether the node's host or a child of the node wants the group's packets.
  bool wants(Node node, Group group);
  void tell_parent(Node node, Group group, bool wanted_before);
  void graft(Node node, Node child, Group group);
  void prune(Node node, Node child, Group group);
  void update_top(Node node, Node child, std::uint16_t session);
  bool in_subtree(Node node, Node root) const;

  Simulator& simulator_;
  std::vector<Node> parents_;
  Duration control_delay_;
  std::vector<std::unique_ptr<Port>> ports_;  // what links deliver to, one per node
  std::vector<std::unique_ptr<Link>> down_;
  std::vector<std::unique_ptr<Link>> up_;
  std::vector<std::vector<Node>> children_;
  std::vector<std::map<Group, std::vector<Node>>>
      grafted_;                                 // per node: the children that want the group
  std::vector<std::map<Group, bool>> joined_;   // per node: what its own host has joined
  std::vector<std::map<Group, bool>> members_;  // the same, as the node has heard it
  std::vector<std::map<std::uint16_t, PacketSink*>> hosts_;
  std::vector<Relay*> relays_;
  std::map<std::uint16_t, std::pair<int, std::function<void(int)>>> membership_;
};

}  // namespace tiercast::testkit
