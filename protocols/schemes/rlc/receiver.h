// RLC's receiver: joins the next layer at a synchronization point of its highest one if nothing was
// lost since the one before, and leaves its highest layer at a loss (PROTOCOLS 11). It sends
// nothing.
#pragma once

#include <cstdint>

#include "protocols/common/layered_reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rlc/settings.h"
#include "protocols/wire/rlc.h"

namespace tiercast::rlc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time, Sink&) override {}
  Time next_timer() const override { return Time::never(); }  // packets tell it the time
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

 private:
  void on_loss(Time now, Sink& sink);
  void on_sync_point(Time now, Sink& sink);
  void change_top(int top, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  LayeredReception reception_;
  Time now_;
  Time deaf_until_;
  Time joined_at_;  // the highest layer, or a layer above it that was left
  // Since the last synchronization point of the highest layer, or of the one below it when that was
  // the highest; false before the first.
  bool lossless_ = false;
};

}  // namespace tiercast::rlc
