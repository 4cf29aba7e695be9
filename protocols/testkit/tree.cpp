#include "protocols/testkit/tree.h"

#include <algorithm>

namespace tiercast::testkit {

class Tree::Port : public PacketSink {
 public:
  Port(Tree& tree, Node node) : tree_(tree), node_(node) {}
  void receive(const Packet& packet) override { tree_.forward(node_, packet); }

 private:
  Tree& tree_;
  Node node_;
};

Tree::Tree(Simulator& simulator, std::vector<Node> parents, const LinkConfig& links,
           Duration control_delay)
    : simulator_(simulator), parents_(std::move(parents)), control_delay_(control_delay) {
  const Node n = size();
  children_.resize(n);
  grafted_.resize(n);
  joined_.resize(n);
  members_.resize(n);
  hosts_.resize(n);
  relays_.resize(n);
  for (Node i = 0; i < n; ++i) ports_.push_back(std::make_unique<Port>(*this, i));
  down_.resize(n);
  up_.resize(n);
  for (Node i = 1; i < n; ++i) {
    children_[parents_[i]].push_back(i);
    configure(i, links);
  }
}

LinkConfig Tree::upward(LinkConfig link) {
  link.marking = false;
  link.red.reset();
  return link;
}

void Tree::configure(Node child, const LinkConfig& link) {
  down_[child] = std::make_unique<Link>(simulator_, link, *ports_[child]);
  up_[child] = std::make_unique<Link>(simulator_, upward(link), *ports_[parents_[child]]);
}

Tree::~Tree() = default;

std::vector<Tree::Node> Tree::balanced_parents(unsigned leaves) {
  std::vector<Node> parents(2 * leaves - 1, 0);
  for (Node i = 1; i < parents.size(); ++i) parents[i] = (i - 1) / 2;
  return parents;
}

void Tree::set_rate(Node child, Rate rate) {
  down(child).set_rate(rate);
  up(child).set_rate(rate);
}

void Tree::attach(Node node, std::uint16_t session, PacketSink* host) {
  hosts_[node][session] = host;
}

void Tree::on_membership(std::uint16_t session, std::function<void(int)> callback) {
  membership_[session] = {-1, std::move(callback)};
}

void Tree::send(Node from, const Packet& packet) { forward(from, packet); }

bool Tree::in_subtree(Node node, Node root) const {
  while (node > root) node = parents_[node];
  return node == root;
}

void Tree::deliver(Node node, std::uint16_t session, const Packet& packet) {
  const auto host = hosts_[node].find(session);
  if (host != hosts_[node].end() && host->second != nullptr) host->second->receive(packet);
}

void Tree::forward(Node node, const Packet& packet) {
  if (relays_[node] == nullptr || !relays_[node]->take(packet)) pass_on(node, packet);
}

void Tree::pass_on(Node node, const Packet& packet) {
  if (packet.multicast) {
    const Group group{packet.session, packet.rank};
    if (joined_[node][group]) deliver(node, packet.session, packet);
    const auto grafted = grafted_[node].find(group);
    if (grafted == grafted_[node].end()) return;
    for (const Node child : grafted->second) down_[child]->send(packet);
    return;
  }
  if (packet.to == node) {
    deliver(node, packet.session, packet);
    return;
  }
  for (const Node child : children_[node]) {
    if (in_subtree(packet.to, child)) {
      down_[child]->send(packet);
      return;
    }
  }
  if (node != 0) up_[node]->send(packet);
}

void Tree::join(Node node, std::uint16_t session, Rank rank) {
  joined_[node][{session, rank}] = true;
  report(node, {session, rank}, true);
}

void Tree::leave(Node node, std::uint16_t session, Rank rank) {
  joined_[node][{session, rank}] = false;
  report(node, {session, rank}, false);
}

void Tree::report(Node node, Group group, bool member) {
  if (node == 0) return;
  simulator_.at(simulator_.now() + control_delay_, [this, node, group, member] {
    const bool before = wants(node, group);
    members_[node][group] = member;
    tell_parent(node, group, before);
  });
}

bool Tree::wants(Node node, Group group) {
  return members_[node][group] || !grafted_[node][group].empty();
}

void Tree::tell_parent(Node node, Group group, bool wanted_before) {
  const bool wanted = wants(node, group);
  if (node == 0 || wanted == wanted_before) return;
  simulator_.at(simulator_.now() + up_[node]->config().delay, [this, node, group, wanted] {
    wanted ? graft(parents_[node], node, group) : prune(parents_[node], node, group);
  });
}

void Tree::graft(Node node, Node child, Group group) {
  const bool before = wants(node, group);
  std::vector<Node>& children = grafted_[node][group];
  if (std::find(children.begin(), children.end(), child) != children.end()) return;
  children.push_back(child);
  std::sort(children.begin(), children.end());
  update_top(node, child, group.first);
  tell_parent(node, group, before);
}

void Tree::prune(Node node, Node child, Group group) {
  const bool before = wants(node, group);
  std::vector<Node>& children = grafted_[node][group];
  const auto at = std::find(children.begin(), children.end(), child);
  if (at == children.end()) return;
  children.erase(at);
  update_top(node, child, group.first);
  tell_parent(node, group, before);
}

void Tree::update_top(Node node, Node child, std::uint16_t session) {
  int link_top = -1;
  int node_top = -1;
  for (const auto& [group, children] : grafted_[node]) {
    if (group.first != session || children.empty()) continue;
    node_top = std::max<int>(node_top, group.second);
    if (std::find(children.begin(), children.end(), child) != children.end()) {
      link_top = std::max<int>(link_top, group.second);
    }
  }
  down_[child]->set_top_group(session, link_top);
  if (node != 0) return;
  const auto membership = membership_.find(session);
  if (membership == membership_.end() || membership->second.first == node_top) return;
  membership->second.first = node_top;
  membership->second.second(node_top);
}

unsigned Tree::subscribers(std::uint16_t session, Rank rank) const {
  unsigned count = 0;
  for (const auto& joined : joined_) {
    const auto at = joined.find({session, rank});
    count += at != joined.end() && at->second ? 1 : 0;
  }
  return count;
}

}  // namespace tiercast::testkit
