// TFMCC's sender: follows the current limiting receiver (CLR), in feedback rounds (RFC 4654, 3;
// PROTOCOLS 8). State does not grow with the receivers.
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
  // Whose report is echoed next; the more urgent kinds come later.
  enum class Urgency { kNone, kClr, kMeasured, kUnmeasured, kNewClr };

  struct Echo {
    Urgency urgency = Urgency::kNone;
    std::uint32_t source = 0;
    std::uint32_t rate = 0;
    std::uint32_t time_us = 0;
    Time arrived;
  };

  // `now`, but never before an earlier one.
  Time advance(Time now);
  void begin(Time now, Sink& sink);
  void begin_round(Time now);
  void end_round(Time now, Sink& sink);
  void take_report(Time now, const wire::TfmccFeedback& feedback, Duration sample, Sink& sink);
  void lose_clr(Time now, Reason reason, Sink& sink);
  void follow(Time now, Rate wanted, Sink& sink);
  void offer_echo(Time now, const wire::TfmccFeedback& feedback, Urgency urgency);
  void check_silence(Time now, Sink& sink);
  Duration patience() const;  // an RTT, but at least a packet's interval
  void set_rate(Rate rate, Sink& sink);
  void trace_clr(Reason reason, Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  std::uint64_t invalid_ = 0;
  bool running_ = false;
  Time now_;

  Rate rate_;       // X
  Time raised_at_;  // up to when increases were granted
  bool slow_start_ = true;
  Duration max_rtt_;   // R_max
  Duration peak_rtt_;  // R_peak, of this round

  bool clr_valid_ = false;
  std::uint32_t clr_ = 0;
  Rate clr_rate_;  // X_r
  Duration clr_rtt_;
  Time clr_chosen_at_;
  Time clr_heard_at_;
  Time halve_at_ = Time::never();

  std::uint16_t fb_round_;
  Time round_began_;
  Time round_ends_ = Time::never();
  bool others_heard_ = false;  // non-CLR feedback in this round
  bool overtime_ = false;      // the round goes on until somebody reports
  unsigned reports_ = 0;
  std::uint32_t supp_rate_ = wire::TfmccData::kNoRate;
  std::uint32_t supp_rate_blind_ = wire::TfmccData::kNoRate;

  Echo echo_;
  std::uint32_t seq_;
};

}  // namespace tiercast::tfmcc
