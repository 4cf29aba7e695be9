// MDP-CC's sender: probes, GRTT, representatives and goal rate (PROTOCOLS 6.3, 6.5), and the
// transfer of an object with repair by NACKs. The only state that it keeps of receivers is that of
// five representatives.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/core/core.h"
#include "protocols/schemes/mdpcc/goal_rate.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/mdpcc/object_sender.h"
#include "protocols/schemes/mdpcc/representatives.h"
#include "protocols/schemes/mdpcc/settings.h"

namespace tiercast::mdpcc {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return probe_at_; }
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return settings_.ecn; }
  bool finished() const override { return finished_; }

  // For tests and reports.
  Rate rate() const { return rate_.rate(); }
  Duration grtt() const { return grtt_; }
  const Representatives& representatives() const { return representatives_; }
  std::uint64_t reports() const { return reports_; }
  std::uint64_t nacks() const { return nacks_; }
  std::uint64_t repairs() const { return repairs_; }

 private:
  // `now`, or the latest time seen if that is later.
  Time advance(Time now);
  void take(Time now, const wire::MdpccReport& report, Sink& sink);
  void take(Time now, const wire::MdpccNack& nack, Sink& sink);
  void sample_grtt(Duration rtt);
  void leave(Time now, std::uint32_t id, Sink& sink);
  void adjust(GoalRate::Reason reason, Sink& sink);
  void send_probe(Time now, Sink& sink);
  void forget_silent(Time now, Sink& sink);
  Duration advertised_grtt() const;
  Duration probe_interval() const;
  void trace_representatives(Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  ObjectSender object_;
  Representatives representatives_;
  GoalRate rate_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;
  std::uint64_t reports_ = 0;
  std::uint64_t nacks_ = 0;
  std::uint64_t repairs_ = 0;
  Time now_;
  bool running_ = false;
  bool finished_ = false;
  const std::uint16_t object_id_;
  std::uint32_t seq_;
  bool data_sent_ = false;  // since the CLR's last answer

  // When each of the latest probes left, by probe_seq % kProbes.
  static constexpr std::uint16_t kProbes = 64;
  std::array<std::uint32_t, kProbes> probe_tx_us_{};
  std::uint16_t probe_seq_;
  std::uint32_t probes_ = 0;
  Time probe_at_ = Time::never();
  Duration idle_interval_;  // between the probes of a finished transfer

  Duration grtt_;
  Duration peak_;             // the largest sample since `epoch_at_`; zero: none
  Time epoch_at_;             // when the last GRTT period ended
  unsigned reflections_ = 0;  // of reports, since `epoch_at_`
  Time reflected_at_;
};

}  // namespace tiercast::mdpcc
