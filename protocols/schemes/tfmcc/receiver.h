// TFMCC's receiver: loss event rate, round-trip time, the rate that TCP would have, and reports
// (RFC 4654, 4; PROTOCOLS 8). Constant state.
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/loss_history.h"
#include "protocols/common/reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/tfmcc/messages.h"
#include "protocols/schemes/tfmcc/received_rate.h"
#include "protocols/schemes/tfmcc/settings.h"

namespace tiercast::tfmcc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return report_at_; }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

  // For tests and reports.
  bool have_rtt() const { return rtt_ > Duration::zero(); }
  Duration rtt() const;  // R: R_max until it was measured
  double loss_event_rate() const { return history_.loss_event_rate(); }
  Rate calculated() const;  // X_r

 private:
  bool have_loss() const { return history_.events() > 0; }
  bool is_clr() const { return latest_.clr_valid && latest_.clr == config_.self_id; }
  void measure_rtt(Time now, const wire::TfmccData& data);
  void first_interval();
  Duration max_rtt() const;  // R_max, as the sender says
  void begin_round(Time now);
  void set_timer(Time now, Duration round);
  bool suppressed() const;
  void report(Time now, wire::TfmccFeedback::Kind kind, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  Reception reception_;
  Time now_;
  LossHistory history_;
  ReceivedRate received_;
  Rate at_first_loss_;  // X_recv

  wire::TfmccData latest_;  // header with the highest number
  Time latest_at_;

  Duration rtt_;                    // zero: not measured
  std::uint32_t delay_offset_ = 0;  // RTT less one-way delay, of the last measurement; us, wraps

  Time report_at_ = Time::never();  // this round's report
  Rate at_round_start_;             // X_fbr
  Time clr_report_at_;              // the CLR's next one
};

}  // namespace tiercast::tfmcc
