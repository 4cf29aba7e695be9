// MLDA's sender: reports every T_control + p, shapes the layers by the receivers' reports of the
// cycle, and sends packet pairs on the base layer (MLDA III-A, IV-A.1; PROTOCOLS 7.4). Its state
// does not grow with the number of receivers.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/core/core.h"
#include "protocols/schemes/mlda/layering.h"
#include "protocols/schemes/mlda/messages.h"
#include "protocols/schemes/mlda/settings.h"

namespace tiercast::mlda {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink&) override { now_ = now; }
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return std::min(next_report_, next_pair_); }
  void stop(Time now, Sink& sink) override { membership(now, -1, sink); }
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return settings_.ecn; }

  // For tests and reports: what the next sender report would say. The rate of the base layer
  // includes its pairs.
  const Layering& layering() const { return layering_; }

 private:
  // The receiver reports since the last sender report.
  struct Cycle {
    std::uint32_t reports = 0;
    std::uint32_t reflections = 0;
    Rate r_min;
    Rate r_max;
    std::uint32_t slowest = 0;  // number of the receiver that reported r_min
    std::uint32_t max_rtt_us = 0;
  };

  Time advance(Time now) { return now_ = std::max(now_, now); }
  bool acceptable(const wire::MldaReceiverReport& report) const;
  void reflect(Time now, const wire::MldaReceiverReport& report, Sink& sink);
  void end_cycle(Sink& sink);
  void send_report(Time now, Sink& sink);
  Duration report_interval();
  Duration pair_interval() const;
  void apply_rates(Sink& sink);
  void trace_layers(Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  Layering layering_;
  std::array<std::uint32_t, kMaxLayers> seq_{};
  std::array<Rate, kMaxLayers> paced_{};  // as given to the pacer
  unsigned subscribed_ = 0;               // number of layers with a listener
  Cycle cycle_;
  unsigned silent_cycles_ = 0;
  std::uint32_t max_rtt_us_ = 0;
  std::uint32_t sr_seq_;  // number of the last report
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;

  Time now_;
  Time next_report_ = Time::never();
  Time next_pair_ = Time::never();
  unsigned pair_left_ = 0;  // packets still to send of the pair that is due
};

}  // namespace tiercast::mlda
