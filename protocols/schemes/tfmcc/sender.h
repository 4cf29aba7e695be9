// TFMCC's sender: follows the current limiting receiver (CLR), in feedback rounds (RFC 4654, 3).
// State does not grow with the receivers.
#pragma once

#include <cstdint>

#include "protocols/core/core.h"
#include "protocols/schemes/tfmcc/messages.h"
#include "protocols/schemes/tfmcc/settings.h"

namespace tiercast::tfmcc {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override;
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return settings_.ecn; }

  // Why there is another CLR; the values are the trace's.
  enum class Reason { kNoClr = 1, kSlower = 2, kLeft = 3, kSilent = 4 };

  // For tests and reports.
  Rate rate() const { return rate_; }
  bool slow_start() const { return slow_start_; }
  bool clr_valid() const { return clr_valid_; }
  std::uint32_t clr() const { return clr_; }
  Duration max_rtt() const { return max_rtt_; }  // R_max
  Duration round_length() const;                 // T

 private:
  // Whose time stamp is echoed first; the more urgent kinds come later (RFC 4654, 3.5).
  enum class Urgency { kNone, kClr, kMeasured, kUnmeasured, kNewClr };

  struct Echo {
    Urgency urgency = Urgency::kNone;
    std::uint32_t source = 0;
    std::uint32_t rate = 0;      // X_r
    std::uint16_t fb_round = 0;  // of the report
    std::uint32_t time_us = 0;
    Time arrived;
  };

  // `now`, but never before an earlier one.
  Time advance(Time now);
  void begin(Time now, Sink& sink);
  void set_rate(Rate rate, Sink& sink);
  void measure_max_rtt(Duration sample);
  void take_report(Time now, const wire::TfmccFeedback& feedback, Duration sample, Sink& sink);
  bool limits(const wire::TfmccFeedback& feedback, Rate wanted) const;
  void choose_clr(Time now, const wire::TfmccFeedback& feedback, Rate wanted, Sink& sink);
  void follow_clr(Time now, Rate wanted, Sink& sink);
  void climb(Time now, Sink& sink);
  Time silence_due() const;
  void check_silence(Time now, Sink& sink);
  void begin_round(Time now);
  Time round_ends() const;
  void end_round(Time now, Sink& sink);
  void suppress(const wire::TfmccFeedback& feedback);
  void offer_echo(const Echo& echo);
  const Echo& next_echo(Time now) const;
  void trace_rate(Sink& sink) const;
  void trace_clr(Reason reason, Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;
  bool running_ = false;
  Time now_;

  Rate rate_;  // X
  bool slow_start_ = true;
  Time climb_due_ = Time::never();  // slow start's next step towards clr_rate_
  Time climb_began_;
  Rate climb_from_;
  Duration max_rtt_;   // R_max
  Duration peak_rtt_;  // R_peak, of this round

  bool clr_valid_ = false;
  bool clr_leaves_ = false;  // its last report said so
  bool clr_halved_ = false;  // the rate was, since its last report
  bool clr_lost_ = false;    // the one before has left or died
  std::uint32_t clr_ = 0;
  Rate clr_rate_;  // X_r
  Duration clr_rtt_;
  Time clr_chosen_at_;
  Time clr_heard_at_;
  Time no_rise_until_;           // the others are waited for
  Time feedback_awaited_since_;  // the last feedback of any receiver, or the last halving without

  std::uint16_t fb_round_;
  Time round_began_;
  bool others_heard_ = false;  // non-CLR feedback in this round
  bool overtime_ = false;      // the round goes on until somebody reports
  unsigned reports_ = 0;
  std::uint32_t supp_rate_ = wire::TfmccData::kNoRate;  // X_supp

  Echo echo_;                // the most urgent one since the last packet
  Echo clr_echo_;            // of the CLR's last report
  bool clr_echoed_ = false;  // in this round
  std::uint32_t seq_;
};

}  // namespace tiercast::tfmcc
