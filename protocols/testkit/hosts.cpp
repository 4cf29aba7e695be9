#include "protocols/testkit/hosts.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace tiercast::testkit {

Host::Host(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
           const SessionConfig& config, Duration jitter)
    : Actor(simulator),
      tree_(tree),
      node_(node),
      config_(config),
      records_(scheme.records),
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

void Host::trace(std::string_view kind, std::span<const TraceField> fields) {
  if (kind != "subscription" && std::ranges::find(records_, kind) == records_.end()) {
    throw std::logic_error("the scheme does not list its records of kind " + std::string(kind));
  }
  if (trace_) trace_(now(), node_, kind, fields);
}

SenderHost::SenderHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
                       const SessionConfig& config, Duration jitter)
    : Host(simulator, tree, node, scheme, config, jitter),
      core_(scheme.make_sender(config)),
      pacer_(config.layers) {
  tree.attach(node, config.session, this);
  tree.on_membership(config.session, [this](int top) {
    if (!running_) return;
    core_->membership(now(), top, *this);
    reschedule();
  });
}

void SenderHost::start() {
  running_ = true;
  core_->start(now(), *this);
  reschedule();
}

void SenderHost::set_rate(Rank layer, Rate rate) {
  rates_[layer] = rate;
  pacer_.set_rate(now(), layer, rate, config_.packet_size);
}

void SenderHost::release(Rank layer, std::uint32_t packets) { released_[layer] += packets; }

void SenderHost::stop() {
  if (running_) core_->stop(now(), *this);
  running_ = false;
}

void SenderHost::reschedule() {
  Time due = std::min(core_->next_timer(), pacer_.next_departure());
  for (unsigned layer = 0; layer < config_.layers; ++layer) {
    if (released_[layer] > 0) due = now();
  }
  set_call(std::min(late(due), next_arrival()));
}

void SenderHost::send_data(Rank layer) {
  auto message = std::make_shared<std::vector<std::byte>>(config_.packet_size - kIpUdpHeaderBytes);
  if (core_->write_data(now(), layer, *message) == 0) return;
  Packet data;
  data.ip_length = config_.packet_size;
  data.from = node_;
  data.multicast = true;
  data.session = config_.session;
  data.rank = layer;
  data.ect = core_->ecn_capable();
  data.message = std::move(message);
  tree_.send(node_, data);
}

void SenderHost::act() {
  Packet packet;
  while (take_arrival(packet)) {
    if (!running_) continue;
    core_->receive(now(), {*packet.message, packet.ip_length, packet.ce, packet.from}, *this);
  }
  if (!running_) return;
  if (core_->next_timer() <= now()) core_->timer(now(), *this);
  while (const auto departure = pacer_.pop(now())) send_data(static_cast<Rank>(departure->layer));
  for (unsigned layer = 0; layer < config_.layers; ++layer) {
    for (; released_[layer] > 0; --released_[layer]) send_data(static_cast<Rank>(layer));
  }
  reschedule();
}

ReceiverHost::ReceiverHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
                           const SessionConfig& config, Duration jitter)
    : Host(simulator, tree, node, scheme, config, jitter), core_(scheme.make_receiver(config)) {
  std::fill(std::begin(joined_at_), std::end(joined_at_), Time::never());
  tree.attach(node, config.session, this);
}

void ReceiverHost::start() {
  running_ = true;
  core_->start(now(), *this);
  reschedule();
}

void ReceiverHost::stop() {
  if (running_) core_->stop(now(), *this);
  running_ = false;
}

void ReceiverHost::join(Rank rank) {
  joined_at_[rank] = now();
  ++subscription_changes_;
  tree_.join(node_, config_.session, rank);
}

void ReceiverHost::leave(Rank rank) {
  joined_at_[rank] = Time::never();
  ++subscription_changes_;
  tree_.leave(node_, config_.session, rank);
}

void ReceiverHost::deliver(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (object_.size() < offset + bytes.size()) object_.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), object_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void ReceiverHost::reschedule() {
  const Time timer = running_ ? late(core_->next_timer()) : Time::never();
  set_call(std::min(timer, next_arrival()));
}

void ReceiverHost::act() {
  Packet packet;
  while (take_arrival(packet)) {
    if (!running_) continue;
    if (packet.multicast && !joined_at_[packet.rank].is_never()) {
      const Time joined = joined_at_[packet.rank];
      if (joined >= Time::zero()) join_latencies_.push_back(now() - joined);
      joined_at_[packet.rank] = Time::nanoseconds(-1);  // seen
    }
    core_->receive(now(), {*packet.message, packet.ip_length, packet.ce, packet.from}, *this);
  }
  if (running_ && core_->next_timer() <= now()) core_->timer(now(), *this);
  reschedule();
}

}  // namespace tiercast::testkit
