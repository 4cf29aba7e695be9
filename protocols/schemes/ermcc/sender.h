// ERMCC's source: follows one congestion representative (CR) and adapts a single rate to the CR's
// throughput at congestion (ERMCC 3.2, Appendix A; PROTOCOLS 4.3). Its state does not grow with the
// number of receivers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/common/ewma.h"
#include "protocols/common/mean_deviation.h"
#include "protocols/core/core.h"
#include "protocols/schemes/ermcc/messages.h"
#include "protocols/schemes/ermcc/settings.h"

namespace tiercast::ermcc {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return running_ ? tick_ : Time::never(); }
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return settings_.ecn; }

  // Why the CR changed. Traces contain these values.
  enum class Reason { kNone = 0, kNoCr = 1, kLongerRtt = 2, kSlower = 3, kSilent = 4, kLeft = 5 };

  // For tests and reports.
  Rate rate() const { return rate_; }
  bool cr_valid() const { return cr_valid_; }
  std::uint32_t cr() const { return cr_; }
  double mu_hat() const { return trac_.mean(); }          // bytes/s
  double sigma_hat() const { return trac_.deviation(); }  // bytes/s
  Duration rtt() const;
  Duration max_rtt() const;
  Duration t_max() const;

 private:
  friend struct LongRun;  // a test, of what takes hours to reach

  // `now`, or the latest time seen if that is later.
  Time advance(Time now);
  void begin(Time now, Sink& sink);
  // How many packets had left before this one; empty: it was never sent.
  std::optional<std::uint64_t> position(std::uint32_t seq) const;
  Duration rtt_sample(Time now, std::uint32_t seq) const;  // zero: not known
  Reason choice(Time now, const wire::ErmccFeedback& feedback, Duration rtt) const;
  void choose(const wire::ErmccFeedback& feedback, Duration rtt);
  void update_stats(const wire::ErmccFeedback& feedback, Duration rtt);
  void cut(Time now, const wire::ErmccFeedback& feedback, Sink& sink);
  void deactivate(Time now, Reason reason, Sink& sink);
  void ask(Time now);
  bool cut_lately(Time now) const;
  void set_rate(Rate rate, Sink& sink);
  void trace_cr(Reason reason, Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;
  bool running_ = false;
  Time now_;
  Time tick_;  // the next "every RTT"

  Rate rate_;  // lambda
  bool cut_once_ = false;
  Time last_cut_;

  // The CR. When it becomes inactive, its values stay as the latest known.
  bool cr_known_ = false;
  bool cr_valid_ = false;
  std::uint32_t cr_ = 0;
  // Of its latest feedback's packet. A CR may be silent for longer than packet numbers reach.
  std::uint64_t cr_position_ = 0;
  MeanDeviation trac_;  // mu_hat, sigma_hat
  Ewma rtt_;            // s
  Duration max_rtt_;    // zero: no sample yet
  Time longer_rtt_until_;

  // The CR's response time once the bottleneck is full.
  MeanDeviation response_;  // E[T], T_sigma, s
  bool full_ = false;
  Time full_since_;  // t0

  std::uint32_t ask_from_ = 0;
  std::uint32_t ask_share_;
  Time next_ask_;

  std::uint32_t seq_;
  std::uint64_t sent_ = 0;
  std::vector<Time> send_times_;  // by seq modulo its size
};

}  // namespace tiercast::ermcc
