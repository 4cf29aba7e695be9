// Runtimes in virtual time: a sender core with its pacer, and a receiver core, at a node of a Tree.
//
// Every step of processing (a wake-up, an arrival) happens late by a random time in [0, jitter], as
// on a busy machine; arrivals stay in order.
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
#include "protocols/pacer/pacer.h"
#include "protocols/testkit/tree.h"

namespace tiercast::testkit {

using Trace =
    std::function<void(Time, Tree::Node, std::string_view kind, std::span<const TraceField>)>;

// What both kinds of host share: late arrivals, sending, tracing.
class Host : public Actor, public PacketSink, protected Sink {
 public:
  Host(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
       const SessionConfig& config, Duration jitter);

  void receive(const Packet& packet) override;
  void set_trace(Trace trace) { trace_ = std::move(trace); }
  // Feedback that leaves this host is lost with this probability (0 .. 1).
  void set_send_loss(double probability) { send_loss_ = probability; }

 protected:
  struct Waiting {
    Time at;
    Packet packet;
  };

  void send(Destination to, std::span<const std::byte> message) override;
  void join(Rank) override {}
  void leave(Rank) override {}
  void set_rate(Rank, Rate) override {}
  void release(Rank, std::uint32_t) override {}
  void deliver(std::uint64_t, std::span<const std::byte>) override {}
  // std::logic_error for a kind that the scheme does not list.
  void trace(std::string_view kind, std::span<const TraceField> fields) override;

  Time late(Time at);  // `at` plus a random delay; never() stays never()
  bool take_arrival(Packet& packet);
  Time next_arrival() const { return inbox_.empty() ? Time::never() : inbox_.front().at; }

  Tree& tree_;
  const Tree::Node node_;
  const SessionConfig config_;
  const std::span<const std::string_view> records_;
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
  Rate rate(Rank layer) const { return rates_[layer]; }
  SenderCore& core() { return *core_; }

 private:
  void act() override;
  void set_rate(Rank layer, Rate rate) override;
  void release(Rank layer, std::uint32_t packets) override;
  void send_data(Rank layer);
  void reschedule();

  std::unique_ptr<SenderCore> core_;
  Pacer pacer_;
  Rate rates_[kMaxLayers];
  std::uint32_t released_[kMaxLayers] = {};  // packets that may leave at once
  bool running_ = false;
};

class ReceiverHost : public Host {
 public:
  ReceiverHost(Simulator& simulator, Tree& tree, Tree::Node node, const Scheme& scheme,
               const SessionConfig& config, Duration jitter = Duration::zero());

  void start();
  void stop();
  // Stops without a word: no leave, no BYE, and packets are ignored.
  void die() { running_ = false; }

  ReceiverCounters counters() const { return core_->counters(); }
  std::uint64_t subscription_changes() const { return subscription_changes_; }
  // What a reliable scheme delivered, byte for byte at its offset.
  const std::vector<std::byte>& object() const { return object_; }
  const std::vector<Duration>& join_latencies() const {
    return join_latencies_;
  }  // to the first packet

 private:
  void act() override;
  void join(Rank rank) override;
  void leave(Rank rank) override;
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void reschedule();

  std::unique_ptr<ReceiverCore> core_;
  bool running_ = false;
  std::uint64_t subscription_changes_ = 0;
  Time joined_at_[kMaxLayers];
  std::vector<Duration> join_latencies_;
  std::vector<std::byte> object_;
};

}  // namespace tiercast::testkit
