#include "protocols/testkit/hosts.h"

#include <algorithm>

namespace tiercast::testkit {

Host::Host(Simulator& simulator, Tree& tree, Tree::Node node, const SessionConfig& config,
           Duration jitter)
    : Actor(simulator),
      tree_(tree),
      node_(node),
      config_(config),
      jitter_(jitter),
      rng_(config.seed * 1000003 + node) {}

Time Host::late(Time at) { return at.is_never() ? at : at + jitter_ * rng_.uniform(); }

void Host::receive(const Packet& packet) {
  Time at = late(now());
  if (!inbox_.empty()) at = std::max(at, inbox_.back().at);
  inbox_.push_back({at, packet});
  if (at < pending_call()) set_call(at);
}

bool Host::take_arrival(Packet& packet) {
  if (inbox_.empty() || inbox_.front().at > now()) return false;
  packet = std::move(inbox_.front().packet);
  inbox_.pop_front();
  return true;
}

void Host::send(Destination to, std::span<const std::byte> message) {
  if (send_loss_ > 0 && rng_.uniform() < send_loss_) return;
  Packet packet;
  packet.ip_length = static_cast<std::uint32_t>(message.size()) + kIpUdpHeaderBytes;
  packet.from = node_;
  packet.session = config_.session;
  packet.multicast = to.kind == Destination::Kind::kGroup;
  packet.rank = to.rank;
  packet.to = to.kind == Destination::Kind::kReceiver ? to.address : 0;
  packet.message = std::make_shared<std::vector<std::byte>>(message.begin(), message.end());
  tree_.send(node_, packet);
}

void Host::trace(Time now, std::string_view kind, std::span<const TraceField> fields) {
  if (trace_) trace_(now, node_, kind, fields);
}

SenderHost::SenderHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
                       const SessionConfig& config, Duration jitter)
    : Host(simulator, tree, node, config, jitter),
      driver_(scheme.make_sender(config), {scheme, config}, *this, SessionPacing(config)) {
  tree.attach(node, config.session, this);
  tree.on_membership(config.session, [this](int top) {
    driver_.membership(now(), top);
    if (driver_.running()) reschedule();
  });
}

void SenderHost::start() {
  driver_.start(now());
  reschedule();
}

void SenderHost::stop() { driver_.stop(now()); }

void SenderHost::reschedule() {
  set_call(std::min(late(driver_.next_call(now())), next_arrival()));
}

void SenderHost::depart(Time now, const Departure& departure) {
  auto message = std::make_shared<std::vector<std::byte>>(config_.packet_size - kIpUdpHeaderBytes);
  if (driver_.write_data(now, departure.layer, *message) == 0) return;
  Packet data;
  data.ip_length = config_.packet_size;
  data.from = node_;
  data.multicast = true;
  data.session = config_.session;
  data.rank = departure.layer;
  data.ect = driver_.core().ecn_capable();
  data.message = std::move(message);
  tree_.send(node_, data);
}

void SenderHost::act() {
  Packet packet;
  while (take_arrival(packet)) {
    driver_.receive(now(), {*packet.message, packet.ip_length, packet.ce, packet.from});
  }
  if (!driver_.running()) return;
  driver_.run(now());
  reschedule();
}

ReceiverHost::ReceiverHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
                           const SessionConfig& config, Duration jitter)
    : Host(simulator, tree, node, config, jitter),
      driver_(make_receiver(scheme, config), {scheme, config}, *this) {
  tree.attach(node, config.session, this);
}

void ReceiverHost::start() {
  driver_.start(now());
  reschedule();
}

void ReceiverHost::stop() {
  if (alive_) driver_.stop(now());
}

Time ReceiverHost::join(Rank rank) {
  ++subscription_changes_;
  tree_.join(node_, config_.session, rank);
  return now();
}

void ReceiverHost::leave(Rank rank) {
  ++subscription_changes_;
  tree_.leave(node_, config_.session, rank);
}

void ReceiverHost::first_packet(Time, Rank, Duration since_join) {
  join_latencies_.push_back(since_join);
}

void ReceiverHost::deliver(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (object_.size() < offset + bytes.size()) object_.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), object_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void ReceiverHost::reschedule() {
  const Time timer = alive_ ? late(driver_.next_call()) : Time::never();
  set_call(std::min(timer, next_arrival()));
}

void ReceiverHost::act() {
  Packet packet;
  while (take_arrival(packet)) {
    if (!alive_) continue;
    const auto group = packet.multicast ? std::optional<Rank>(packet.rank) : std::nullopt;
    driver_.receive(now(), {*packet.message, packet.ip_length, packet.ce, packet.from}, group);
  }
  if (alive_) driver_.run(now());
  reschedule();
}

}  // namespace tiercast::testkit
