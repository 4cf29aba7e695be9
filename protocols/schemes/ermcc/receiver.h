// ERMCC's receiver: measures its throughput at congestion (TRAC). Feedback comes from the CR and
// from receivers that are slower than it (ERMCC 3.1; PROTOCOLS 4.2). Constant state.
#pragma once

#include <cstdint>

#include "protocols/common/layered_reception.h"
#include "protocols/common/mean_deviation.h"
#include "protocols/core/core.h"
#include "protocols/schemes/ermcc/messages.h"
#include "protocols/schemes/ermcc/settings.h"

namespace tiercast::ermcc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time, Sink&) override {}
  Time next_timer() const override { return Time::never(); }  // it acts only when a packet arrives
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

  // For tests and reports, in bytes/s.
  double mu() const { return trac_.mean(); }
  double sigma() const { return trac_.deviation(); }

 private:
  void congestion(Time now, std::uint32_t seq, Sink& sink);
  bool is_cr() const { return latest_.cr_valid && latest_.cr == config_.self_id; }
  bool asked() const;
  void send(wire::ErmccFeedback::Kind kind, std::uint32_t seq, double omega, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  const std::uint32_t place_;  // on the circle from which receivers are asked
  LayeredReception reception_;
  Time now_;
  Time first_at_;           // of the first packet
  MeanDeviation trac_;      // mu and sigma
  wire::ErmccData latest_;  // the header with the highest number
};

}  // namespace tiercast::ermcc
