// Runtimes in virtual time, at a node of a Tree: a sender core with its pacer, and a receiver core.
//
// As on a busy machine, every step of processing (a wake-up, an arrival) happens late by a random
// time in [0, jitter]. Arrivals stay in order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/driver/lying_receiver.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"
#include "protocols/testkit/tree.h"

namespace tiercast::testkit {

using Trace =
    std::function<void(Time, Tree::Node, std::string_view kind, std::span<const TraceField>)>;

// What both kinds of host have in common: late arrivals, sending, tracing.
class Host : public Actor, public PacketSink {
 public:
  Host(Simulator& simulator, Tree& tree, Tree::Node node, const SessionConfig& config,
       Duration jitter);

  void receive(const Packet& packet) override;
  void set_trace(Trace trace) { trace_ = std::move(trace); }
  // The probability (0 .. 1) that feedback from this host is lost.
  void set_send_loss(double probability) { send_loss_ = probability; }

 protected:
  struct Waiting {
    Time at;
    Packet packet;
  };

  void send(Destination to, std::span<const std::byte> message);
  bool wants_records() const { return true; }
  void trace(Time now, std::string_view kind, std::span<const TraceField> fields);

  Time late(Time at);  // `at` plus a random delay; never() stays never()
  bool take_arrival(Packet& packet);
  Time next_arrival() const { return inbox_.empty() ? Time::never() : inbox_.front().at; }

  Tree& tree_;
  const Tree::Node node_;
  const SessionConfig config_;
  Duration jitter_;
  Rng rng_;
  std::deque<Waiting> inbox_;
  Trace trace_;
  double send_loss_ = 0;
};

class SenderHost : public Host {
 public:
  SenderHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
             const SessionConfig& config, Duration jitter = Duration::zero());

  void start();
  void stop();
  Rate rate(Rank layer) const { return driver_.rate(layer); }
  const SenderCore& core() const { return driver_.core(); }
  FeedbackRefusals refusals() const { return driver_.refusals(); }

 private:
  friend class SenderDriver<SenderHost>;

  void act() override;
  void depart(Time now, const Departure& departure);
  void reschedule();

  SenderDriver<SenderHost> driver_;
};

class ReceiverHost : public Host {
 public:
  ReceiverHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
               const SessionConfig& config, Duration jitter = Duration::zero());

  void start();
  void stop();
  // Stops without notice: no leave and no BYE are sent, and packets are ignored.
  void die() { alive_ = false; }

  ReceiverCounters counters() const { return driver_.core().counters(); }
  std::uint64_t subscription_changes() const { return subscription_changes_; }
  // What a reliable scheme delivered, each byte at its offset.
  const std::vector<std::byte>& object() const { return object_; }
  const std::vector<Duration>& join_latencies() const {
    return join_latencies_;
  }  // from the join to the first packet

 private:
  friend class ReceiverDriver<ReceiverHost>;

  void act() override;
  void send(std::span<const std::byte> message) { Host::send(Destination::sender(), message); }
  Time join(Rank rank);
  void leave(Rank rank);
  void first_packet(Time now, Rank rank, Duration since_join);
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes);
  void reschedule();

  ReceiverDriver<ReceiverHost> driver_;
  bool alive_ = true;
  std::uint64_t subscription_changes_ = 0;
  std::vector<Duration> join_latencies_;
  std::vector<std::byte> object_;
};

}  // namespace tiercast::testkit
