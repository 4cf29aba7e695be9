// PGMCC's receiver: measures its loss rate, reports losses by NAKs, and acknowledges every packet
// that names it as the acker (PROTOCOLS 9).
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/gap_detector.h"
#include "protocols/common/rate_meter.h"
#include "protocols/common/reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/pgmcc/messages.h"
#include "protocols/schemes/pgmcc/settings.h"

namespace tiercast::pgmcc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return nak_at_; }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

  double loss() const { return loss_; }  // p, 0 .. 1
  std::uint64_t naks_suppressed() const { return naks_suppressed_; }

 private:
  // A packet counts as lost when this many later ones have arrived (PROTOCOLS 0.3).
  static constexpr std::uint32_t kReordering = 3;

  void data(const wire::PgmccData& data, const Arrival& arrival, Sink& sink);
  void confirmed(const wire::PgmccConfirmation& confirmation);
  bool note(std::uint32_t seq, bool marked, Sink& sink);
  void begin(std::uint32_t seq);
  void judge(std::uint32_t seq, bool received, Sink& sink);
  void plan(wire::PgmccFeedback::Kind kind, std::uint32_t missing, Sink& sink);
  void send(wire::PgmccFeedback::Kind kind, std::uint32_t missing, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  Reception reception_;
  mutable RateMeter meter_;

  GapDetector gaps_;
  std::uint32_t rx_max_ = 0;
  std::uint64_t history_ = 0;  // bit i: packet rx_max_ - i was received
  std::uint32_t known_ = 0;    // number of bits of history_ that belong to this session; 0 before
                               // the first packet, at most 64
  double loss_ = 0;
  bool acker_ = false;
  std::uint32_t echo_time_us_ = 0;
  Time echo_at_;

  // Only one NAK is pending at a time.
  Time nak_at_ = Time::never();
  wire::PgmccFeedback::Kind nak_kind_ = wire::PgmccFeedback::Kind::kNak;
  std::uint32_t nak_missing_ = 0;
  std::uint64_t naks_suppressed_ = 0;
  unsigned repeats_ = 0;  // packets in a row that were not new
  Time now_;
};

}  // namespace tiercast::pgmcc
