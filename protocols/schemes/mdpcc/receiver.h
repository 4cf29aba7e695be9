// MDP-CC's receiver: measures the loss and rate of its path, answers probes, at once or with
// suppression (PROTOCOLS 6.4), and collects the object's segments (object_receiver.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/gap_detector.h"
#include "protocols/common/loss_history.h"
#include "protocols/common/reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/mdpcc/object_receiver.h"
#include "protocols/schemes/mdpcc/settings.h"

namespace tiercast::mdpcc {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override {
    return reception_.joined() ? std::min(report_at_, object_.next_timer()) : Time::never();
  }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

 private:
  enum class Phase { kIdle, kBackoff, kHoldoff };

  void take(Time now, const wire::MdpccData& data, const Arrival& arrival, Sink& sink);
  void take(Time now, const wire::MdpccProbe& probe, Sink& sink);
  void take(Time now, const wire::MdpccReport& report, Sink& sink);
  void measure_path(Time now, std::uint32_t seq, const Arrival& arrival, Sink& sink);
  void back_off(Time now);
  void ask_for_repair(Time now, Sink& sink);
  void measure_rate(Time now, std::uint32_t bytes);
  void begin_loss_history();
  void send_report(Time now, std::uint8_t more_flags, Sink& sink);
  // The rate that this receiver asks for: twice what it receives until the first loss, then MDP-CC
  // (1).
  Rate desired_rate() const;
  Duration rtt() const { return rtt_confirmed_ ? rtt_ : grtt_; }
  ObjectReceiver::Timing timing() const { return {grtt_, backoff_, group_size_}; }

  const SessionConfig config_;
  const Settings settings_;
  Reception reception_;
  Rng rng_;
  Time now_;
  GapDetector gaps_;
  LossHistory losses_;
  ObjectReceiver object_;

  // The received rate: bytes since the last sample. A sample lasts a round trip and four packets.
  Rate received_rate_;
  bool receiving_ = false;
  Time sample_since_;
  std::uint64_t sample_bytes_ = 0;
  unsigned sample_packets_ = 0;

  // From the latest probe.
  bool probe_seen_ = false;
  std::uint16_t probe_seq_ = 0;
  std::uint32_t probe_tx_us_ = 0;
  Time probe_at_;
  Duration grtt_;
  Rate tx_rate_;
  unsigned backoff_;
  unsigned group_size_;
  bool representative_ = false;
  bool clr_ = false;
  bool rtt_confirmed_ = false;
  Duration rtt_;

  Phase phase_ = Phase::kIdle;  // of the report that may be suppressed
  Time report_at_ = Time::never();
};

}  // namespace tiercast::mdpcc
