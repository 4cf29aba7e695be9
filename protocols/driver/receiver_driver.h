// Runs one receiver core, the same way in every runtime: the order of calls that core.h asks for,
// the core's timer, its subscriptions, and checks of what it asks for.
//
// It has no clock and does no I/O. A runtime calls it with the time and provides the few functions
// that differ between runtimes:
//
//   void send(std::span<const std::byte> message);  // feedback, to the sender, at once
//   Time join(Rank rank);                           // returns when it was done
//   void leave(Rank rank);
//   void first_packet(Time now, Rank rank, Duration since_join);
//   void deliver(std::uint64_t offset, std::span<const std::byte> bytes);
//   bool wants_records() const;  // else trace() is not called, and no record checked
//   void trace(Time now, std::string_view kind, std::span<const TraceField> fields);
//
// After every call the runtime asks for next_call() again and calls run() at that instant. A late
// call is allowed; an early one is harmless. Nothing is allocated after construction, and no call
// between driver and runtime is virtual. Arguments of the runtime's functions are valid only during
// the call, and these functions must not call the driver back. ContractError: the core asked for
// what core.h does not allow.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "protocols/core/core.h"
#include "protocols/driver/contract.h"

namespace tiercast {

template <class Runtime>
class ReceiverDriver final : private Sink {
 public:
  // `core` has the contract's scheme and session. `runtime` must outlive the object.
  ReceiverDriver(std::unique_ptr<ReceiverCore> core, const Contract& contract, Runtime& runtime)
      : core_(std::move(core)), runtime_(runtime), contract_(contract) {}
  ReceiverDriver(const ReceiverDriver&) = delete;
  ReceiverDriver& operator=(const ReceiverDriver&) = delete;

  void start(Time now) {  // once
    now_ = now;
    running_ = true;
    contract_.calling("start", [&] { core_->start(now, *this); });
  }
  // `group`: the layer whose group the packet was sent to; empty if it was sent to this receiver
  // alone. Packets are ignored while the driver does not run. A packet may arrive after its layer
  // was left.
  void receive(Time now, const Arrival& arrival, std::optional<Rank> group) {
    if (!running_) return;
    now_ = now;
    if (group && (waiting_ & bit(*group)) != 0) note_first_packet(now, *group);
    contract_.calling("receive", [&] { core_->receive(now, arrival, *this); });
  }
  // Calls the core's timer if it is due.
  void run(Time now) {
    if (running_ && core_->next_timer() <= now) timer(now);
  }
  // The same, for a runtime that knows that the driver runs and the timer is due.
  void timer(Time now) {
    timer_watch_.note(now, contract_);
    now_ = now;
    contract_.calling("timer", [&] { core_->timer(now, *this); });
  }
  // At most once. The core leaves its layers itself.
  void stop(Time now) {
    if (!running_) return;
    now_ = now;
    contract_.calling("stop", [&] { core_->stop(now, *this); });
    running_ = false;
  }

  // The latest time to call run(). Time::never(): not before something else happens.
  Time next_call() const { return running_ ? core_->next_timer() : Time::never(); }

  bool running() const { return running_; }
  bool joined(Rank rank) const { return (joined_ & bit(rank)) != 0; }
  const ReceiverCore& core() const { return *core_; }

 private:
  static constexpr std::uint8_t bit(Rank rank) { return static_cast<std::uint8_t>(1u << rank); }
  static_assert(kMaxLayers <= 8);

  // A packet from before the join may have waited in a buffer; it is not the first of this
  // subscription.
  void note_first_packet(Time now, Rank rank) {
    if (now < joined_at_[rank]) return;
    waiting_ &= static_cast<std::uint8_t>(~bit(rank));
    runtime_.first_packet(now, rank, now - joined_at_[rank]);
  }

  void send(Destination to, std::span<const std::byte> message) override {
    if (to.kind != Destination::Kind::kSender) {
      contract_.refuse(
          "send: a receiver may send only to the sender, which reflects messages to the group");
    }
    runtime_.send(message);
  }
  void join(Rank rank) override {
    contract_.check_layer("join", rank);
    if (joined(rank))
      contract_.refuse("join: layer " + std::to_string(rank) + ", which is already joined");
    joined_ |= bit(rank);
    waiting_ |= bit(rank);
    joined_at_[rank] = runtime_.join(rank);
  }
  void leave(Rank rank) override {
    contract_.check_layer("leave", rank);
    if (!joined(rank)) {
      contract_.refuse("leave: layer " + std::to_string(rank) + ", which is not joined");
    }
    joined_ &= static_cast<std::uint8_t>(~bit(rank));
    waiting_ &= static_cast<std::uint8_t>(~bit(rank));
    runtime_.leave(rank);
  }
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override {
    runtime_.deliver(offset, bytes);
  }
  void trace(std::string_view kind, std::span<const TraceField> fields) override {
    if (!runtime_.wants_records()) return;
    contract_.check_record(kind, fields);
    runtime_.trace(now_, kind, fields);
  }
  void set_rate(Rank, Rate) override {
    contract_.refuse("set_rate: a receiver has no layers to pace");
  }
  void release(Rank, std::uint32_t) override {
    contract_.refuse("release: a receiver has no layers to pace");
  }

  std::unique_ptr<ReceiverCore> core_;
  Time now_;  // time of the call that is in progress
  Runtime& runtime_;
  bool running_ = false;
  std::uint8_t joined_ = 0;   // one bit per layer
  std::uint8_t waiting_ = 0;  // joined layers that have had no packet yet
  Contract contract_;
  TimerWatch timer_watch_;
  std::array<Time, kMaxLayers> joined_at_{};
};

}  // namespace tiercast
