// MLDA's receiver: observes losses after each sender report, computes its TCP-friendly share with
// LDA+, joins and leaves layers at the ends of observation periods, and reports its share unless it
// has heard a similar report (MLDA III-B to III-E; PROTOCOLS 7.3).
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/layered_reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/mlda/layering.h"
#include "protocols/schemes/mlda/lda_plus.h"
#include "protocols/schemes/mlda/messages.h"
#include "protocols/schemes/mlda/packet_pair.h"
#include "protocols/schemes/mlda/rtt_tracker.h"
#include "protocols/schemes/mlda/settings.h"

namespace tiercast::mlda {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return std::min(deadline_, cycle_timeout_); }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

  // For tests and reports.
  Rate share() const { return Rate::bytes_per_second(share_); }  // r_j; zero before the first value
  const RttTracker& rtt() const { return rtt_; }
  Rate bottleneck() const { return pairs_.estimate(); }

 private:
  enum class Phase { kIdle, kObserving, kReporting };

  // What has arrived since an observation period began.
  struct Window {
    Time since;
    std::uint64_t packets = 0;
    std::uint64_t lost = 0;
    std::uint64_t marked = 0;
    std::uint64_t bytes = 0;
  };

  void receive_data(Time now, const wire::MldaData& data, const Arrival& arrival);
  void receive_report(Time now, const wire::MldaSenderReport& report, Sink& sink);
  void receive_reflection(Time now, const wire::MldaReflection& reflection, Sink& sink);
  void begin_cycle(Time now);
  void end_observation(Time now, Sink& sink);
  void estimate(Time now, Sink& sink);
  void schedule_report(Time now);
  void send_report(Time now, Sink& sink);
  bool asks_rtt(Time now) const;
  Duration round_trip() const;
  unsigned joined() const { return static_cast<unsigned>(reception_.top() + 1); }  // x
  void change_top(int top, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  const Subintervals subintervals_;
  Rng rng_;
  LayeredReception reception_;
  LdaPlus lda_;
  PacketPair pairs_;
  RttTracker rtt_;
  Time now_;

  // From the last sender report.
  bool report_seen_ = false;
  std::uint32_t sr_seq_ = 0;
  std::uint32_t session_rtt_us_ = 0;  // R_max_rtt
  Layering layering_;

  Phase phase_ = Phase::kIdle;
  Time deadline_ = Time::never();       // end of the phase
  Time cycle_timeout_ = Time::never();  // sigma T_control after this cycle began
  Time cycle_began_;
  bool adapted_ = false;  // in this cycle
  Window window_;
  double share_ = 0;     // r_j, B/s
  double loss_ = 0;      // l, in the last period
  double max_rate_ = 0;  // largest received rate of this cycle's periods, B/s

  // Of the last receiver report. Its echo gives one sample of the round-trip time.
  bool echo_awaited_ = false;
  std::uint32_t sent_us_ = 0;
};

}  // namespace tiercast::mlda
