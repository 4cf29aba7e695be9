// SIM's sender: feedback rounds, AIMD per layer, menu adaptation (SIM 3.1, 3.3; PROTOCOLS 3.2).
//
// A round lasts about two maximum RTTs: request feedback -> collect until all children have
// answered or two RTTs have passed -> adjust the rates -> wait one RTT -> next round.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/common/ewma.h"
#include "protocols/core/core.h"
#include "protocols/schemes/sim/children.h"
#include "protocols/schemes/sim/menu.h"
#include "protocols/schemes/sim/messages.h"
#include "protocols/schemes/sim/settings.h"

namespace tiercast::sim {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return deadline_; }
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return true; }  // marks are its congestion signal (SIM 3.1)

  // For tests and reports.
  Rate rate(Rank layer) const { return layers_[layer].rate; }
  bool active(Rank layer) const { return layer < active_layers_; }
  const Menu& menu() const { return menu_; }
  Duration max_rtt() const { return max_rtt_; }
  std::uint32_t fb_req() const { return fb_req_; }
  std::uint32_t children() const { return children_.count(); }

 private:
  enum class Phase { kIdle, kCollecting, kWaiting };

  struct Layer {
    Rate rate;      // r[k]
    Rate adjusted;  // what feedback adjusts: c[k], or r[k] if not cumulative
    std::uint32_t seq = 0;
    GroupSummary summary;  // of this round
  };

  // `now`, or the latest time seen if that is later.
  Time advance(Time now);
  void begin_round(Time now);
  void finish_round(Time now, Sink& sink);
  void update_rtt();
  void adjust_rates(Sink& sink);
  void adapt_menu_if_due(Time now, Sink& sink);
  // Whether it belongs to this session, and its layers exist.
  bool acceptable(const wire::SimFeedback& feedback) const;
  bool asked(std::uint32_t fb_req) const;
  bool plausible(const wire::SimFeedback& feedback) const;
  bool believed(const wire::SimFeedback& feedback);  // counts it if it is not plausible
  void merge(const wire::SimFeedback& feedback);
  void sample_rtt(Time now, const wire::SimFeedback& feedback);
  void set_rate(Rank layer, Rate rate, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  std::array<Layer, kMaxLayers> layers_{};
  unsigned active_layers_ = 0;
  Children children_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;

  Phase phase_ = Phase::kIdle;
  Time now_;
  Time deadline_ = Time::never();
  std::uint32_t fb_req_;
  std::uint16_t rate_epoch_;

  // When the first packet with each of the latest requests left, by fb_req % kRequests; never: not
  // yet.
  static constexpr std::uint32_t kRequests = 32;
  std::array<Time, kRequests> request_sent_at_;

  // State of this round.
  bool new_child_ = false;
  Duration rtt_sample_;  // largest since the last adjustment; zero: none
  std::uint32_t min_cum_rate_ = 0;
  std::uint32_t max_cum_rate_ = 0;
  bool rates_reported_ = false;

  unsigned empty_rounds_ = 0;
  Ewma rtt_;
  Duration max_rtt_;
  Menu menu_;
  bool top_seen_congested_ = false;
  Time next_menu_time_;
};

}  // namespace tiercast::sim
