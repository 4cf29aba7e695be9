// Runs one sender core, the same way in every runtime: the order of calls that core.h asks for, the
// core's timer, the departures of its layers, and checks of what it asks for.
//
// It has no clock and does no I/O. A runtime calls it with the time and provides the few functions
// that differ between runtimes:
//
//   void send(Destination to, std::span<const std::byte> message);  // kGroup or kReceiver, at once
//   bool wants_records() const;  // else trace() is not called, and no record checked
//   void trace(Time now, std::string_view kind, std::span<const TraceField> fields);
//   void depart(Time now, const Departure& departure);  // builds the data packet, by write_data()
//
// `Pacing` decides when packets leave. A runtime with one or a few sessions uses SessionPacing. A
// runtime that drives many sessions shares one pacer among them: its Pacing offers set_rate() and
// release() as SessionPacing does, it pops the departures itself, and it does not use run(),
// next_call() or depart().
//
// After every call the runtime asks for next_call() (or next_timer()) again and calls run() (or
// timer()) at that instant. A late call is allowed; an early one is harmless. Nothing is allocated
// after construction, and no call between driver and runtime is virtual. Arguments of the runtime's
// functions are valid only during the call, and none of these functions except depart() may call
// the driver back. ContractError: the core asked for what core.h does not allow.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "protocols/core/core.h"
#include "protocols/driver/contract.h"
#include "protocols/driver/session_pacing.h"

namespace tiercast {

template <class Runtime, class Pacing = SessionPacing>
class SenderDriver final : private Sink {
 public:
  // `core` has the contract's scheme and session. `runtime` must outlive the object.
  SenderDriver(std::unique_ptr<SenderCore> core, const Contract& contract, Runtime& runtime,
               Pacing pacing)
      : core_(std::move(core)),
        runtime_(runtime),
        contract_(contract),
        sources_(contract.feedback_sources()),
        pacing_(std::move(pacing)) {}
  SenderDriver(const SenderDriver&) = delete;
  SenderDriver& operator=(const SenderDriver&) = delete;

  // To be called once. Passes on to the core what membership() was told before.
  void start(Time now) {
    now_ = now;
    running_ = true;
    contract_.calling("start", [&] { core_->start(now, *this); });
    if (top_rank_ != kUntold)
      contract_.calling("membership", [&] { core_->membership(now, top_rank_, *this); });
  }
  // The highest rank that has a subscriber anywhere; -1 if nobody subscribes. Ranks above the
  // session's top layer count as the top layer. May be called before start().
  void membership(Time now, int top_rank) {
    top_rank_ = std::clamp(top_rank, -1, static_cast<int>(contract_.layers()) - 1);
    if (!running_) return;
    now_ = now;
    contract_.calling("membership", [&] { core_->membership(now, top_rank_, *this); });
  }
  // Messages are ignored while the driver does not run. Those that are not from the receiver in
  // whose name they speak do not reach the core. Returns whether it reached it.
  bool receive(Time now, const Arrival& arrival) {
    if (!running_ || !sources_.accepts(arrival)) return false;
    now_ = now;
    contract_.calling("receive", [&] { core_->receive(now, arrival, *this); });
    return true;
  }
  // Does all that is due: the core's timer, then the departures.
  void run(Time now) {
    if (!running_) return;
    if (core_->next_timer() <= now) timer(now);
    send_due(now);
  }
  // At most once. Nothing leaves afterwards.
  void stop(Time now) {
    if (!running_) return;
    now_ = now;
    contract_.calling("stop", [&] { core_->stop(now, *this); });
    running_ = false;
  }

  // The parts of run(), for runtimes that do more in between. The driver must be running.
  void timer(Time now) {
    timer_watch_.note(now, contract_);
    now_ = now;
    contract_.calling("timer", [&] { core_->timer(now, *this); });
  }
  void send_due(Time now) {
    while (const auto departure = pacing_.pop_paced(now)) runtime_.depart(now, *departure);
    send_released(now);
  }
  void send_released(Time now) {
    while (const auto departure = pacing_.pop_released(now)) runtime_.depart(now, *departure);
  }
  // To be called from depart(). As SenderCore::write_data().
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) {
    const std::size_t written =
        contract_.calling("write_data", [&] { return core_->write_data(now, layer, message); });
    contract_.check_written(layer, written, message.size());
    return written;
  }

  // The latest time to call run(). Time::never(): not before something else happens.
  Time next_call(Time now) const {
    return running_ ? std::min(core_->next_timer(), pacing_.next_departure(now)) : Time::never();
  }
  Time next_timer() const { return core_->next_timer(); }

  bool running() const { return running_; }
  Rate rate(Rank layer) const { return pacing_.rate(layer); }
  const SenderCore& core() const { return *core_; }
  FeedbackRefusals refusals() const {
    FeedbackRefusals refusals = sources_.refusals();
    refusals.implausible = core_->implausible();
    return refusals;
  }

 private:
  static constexpr int kUntold = -2;

  void send(Destination to, std::span<const std::byte> message) override {
    switch (to.kind) {
      case Destination::Kind::kGroup: contract_.check_layer("send", to.rank); break;
      case Destination::Kind::kReceiver: break;
      case Destination::Kind::kSender: contract_.refuse("send: a sender has no message for itself");
    }
    runtime_.send(to, message);
  }
  void set_rate(Rank layer, Rate rate) override {
    contract_.check_rate(layer, rate);
    pacing_.set_rate(now_, layer, rate);
  }
  void release(Rank layer, std::uint32_t packets) override {
    contract_.check_layer("release", layer);
    pacing_.release(layer, packets);
  }
  void trace(std::string_view kind, std::span<const TraceField> fields) override {
    if (!runtime_.wants_records()) return;
    contract_.check_record(kind, fields);
    runtime_.trace(now_, kind, fields);
  }
  void join(Rank) override { contract_.refuse("join: a sender has no subscriptions"); }
  void leave(Rank) override { contract_.refuse("leave: a sender has no subscriptions"); }
  void deliver(std::uint64_t, std::span<const std::byte>) override {
    contract_.refuse("deliver: a sender receives no object");
  }

  std::unique_ptr<SenderCore> core_;
  Time now_;  // time of the call that is in progress
  Runtime& runtime_;
  bool running_ = false;
  int top_rank_ = kUntold;
  Contract contract_;
  TimerWatch timer_watch_;
  FeedbackSources sources_;
  Pacing pacing_;
};

}  // namespace tiercast
