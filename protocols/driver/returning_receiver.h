// A receiver that may leave its session and come back, the same way in every runtime. Each time it
// is a new member, with a new core and a seed of its own; its counts go on.
//
// `Runtime` provides what ReceiverDriver asks for. Each start after the first allocates a core.
#pragma once

#include <cstdint>
#include <optional>

#include "protocols/core/registry.h"
#include "protocols/driver/lying_receiver.h"
#include "protocols/driver/receiver_driver.h"

namespace tiercast {

template <class Runtime>
class ReturningReceiver {
 public:
  // `scheme` and `runtime` must outlive the object. ConfigError: the scheme refuses the session.
  ReturningReceiver(const Scheme& scheme, const SessionConfig& session, Runtime& runtime)
      : scheme_(scheme), session_(session), runtime_(runtime) {
    renew();
  }

  void start(Time now) {
    if (running()) return;
    if (!driver_) renew();
    driver_->start(now);
  }
  void stop(Time now) {
    if (!running()) return;
    driver_->stop(now);
    before_ = counters();
    driver_.reset();
  }
  // These do nothing while it is absent.
  void receive(Time now, const Arrival& arrival, std::optional<Rank> group) {
    if (driver_) driver_->receive(now, arrival, group);
  }
  void run(Time now) {
    if (driver_) driver_->run(now);
  }

  // The latest time to call run(). Time::never(): not before something else happens.
  Time next_call() const { return driver_ ? driver_->next_call() : Time::never(); }
  bool running() const { return driver_ && driver_->running(); }
  bool joined(Rank rank) const { return driver_ && driver_->joined(rank); }

  // The core's, plus what earlier cores have counted. After stop(): as the last core left them.
  ReceiverCounters counters() const {
    if (!driver_) return before_;
    ReceiverCounters sum = driver_->core().counters();
    sum.bytes += before_.bytes;
    sum.packets += before_.packets;
    sum.lost += before_.lost;
    sum.marked += before_.marked;
    sum.invalid += before_.invalid;
    return sum;
  }

 private:
  void renew() {
    SessionConfig own = session_;
    own.seed += starts_++ << 48;
    driver_.emplace(make_receiver(scheme_, own), Contract(scheme_, own), runtime_);
  }

  const Scheme& scheme_;
  const SessionConfig session_;
  Runtime& runtime_;
  std::uint64_t starts_ = 0;
  std::optional<ReceiverDriver<Runtime>> driver_;
  ReceiverCounters before_;
};

}  // namespace tiercast
