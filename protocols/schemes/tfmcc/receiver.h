// TFMCC's receiver: loss event rate, round-trip time, the rate that TCP would have, and reports
// (RFC 4654, 4 and 5). Constant state.
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/gap_detector.h"
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
  Time next_timer() const override;
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

  // For tests and reports.
  bool have_rtt() const { return have_rtt_; }
  bool have_loss() const { return have_loss_; }
  bool is_clr() const { return is_clr_; }
  Duration rtt() const;  // R' between measurements, R at one; R_max before the first
  double loss_event_rate() const { return history_.loss_event_rate(); }
  Rate desired_rate() const;  // X_r

 private:
  void forget_sender();
  void after_gap(Duration gap);
  void learn_clr(const wire::TfmccData& data);
  void measure_rtt(Time now, const wire::TfmccData& data, bool newest);
  void update_losses(Time now, const Arrival& arrival, std::uint32_t seq);
  void begin_loss_history();
  Duration max_rtt() const;  // R_max, as the sender says
  Rate received() const;     // X_recv over k RTTs
  void begin_round(Time now);
  Time report_due() const;
  bool suppressed() const;
  void report(Time now, bool leave, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  Reception reception_;
  Time now_;

  wire::TfmccData latest_;  // header with the highest number
  Time latest_at_;
  bool is_clr_ = false;

  bool have_rtt_ = false;
  Duration smoothed_rtt_;           // R
  Duration adjusted_rtt_;           // R'
  std::uint32_t return_delay_ = 0;  // D_r, with the difference of the clocks; us, wraps

  GapDetector gaps_;
  LossHistory history_;
  bool have_loss_ = false;
  ReceivedRate received_;
  double first_interval_ = 0;    // l_0
  Duration first_interval_rtt_;  // that it was calculated with

  bool report_pending_ = false;  // of this round
  double wait_ = 0;              // t / T
  Time round_began_;             // later by the gaps in which the timer stood still
  Rate at_round_start_;          // X_fbr
  Time clr_report_due_;
};

}  // namespace tiercast::tfmcc
