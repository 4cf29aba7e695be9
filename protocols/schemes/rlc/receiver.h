// RLC's receiver: at a synchronization point of its highest layer it joins the next layer if
// nothing was lost since the previous point. At a loss it leaves its highest layer (PROTOCOLS 11).
// It sends nothing.
#pragma once

#include <cstdint>

#include "protocols/common/layered_reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rlc/messages.h"
#include "protocols/schemes/rlc/settings.h"

namespace tiercast::rlc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time, Sink&) override {}
  Time next_timer() const override { return Time::never(); }  // it gets the time from packets
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
  Time joined_at_;  // when it last joined a layer
  // No loss since the last synchronization point of the highest layer (or of the layer below, if
  // that was the highest then). False before the first point.
  bool lossless_ = false;
};

}  // namespace tiercast::rlc
