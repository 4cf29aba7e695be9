// SIM's receiver: congestion state of its top group, feedback on request, selective participation
// (SIM 3.1, 3.2, 3.4; PROTOCOLS 3.3). Its state is a few numbers per layer.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/common/ewma.h"
#include "protocols/common/gap_detector.h"
#include "protocols/common/reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/sim/messages.h"
#include "protocols/schemes/sim/settings.h"

namespace tiercast::sim {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time, Sink&) override {}
  Time next_timer() const override { return Time::never(); }  // it acts only when a packet arrives
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

 private:
  void note_request(Time now, std::uint32_t fb_req);
  void note_epoch(const wire::SimData& data, Sink& sink);
  void answer_request(Time now, Sink& sink);
  void participate(bool reduced, Sink& sink);
  // The number of needless cuts before this layer is added.
  double cuts_before(int layer) const;
  void change_top(int top, Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  Reception reception_;
  std::array<GapDetector, kMaxLayers> gaps_;
  Time now_;

  // The latest request seen.
  bool request_seen_ = false;
  bool answered_ = true;
  std::uint32_t fb_req_ = 0;
  Time request_at_;

  // The received rate: bytes since the last notification.
  Ewma rate_;
  Time rate_since_;
  std::uint64_t rate_bytes_ = 0;
  std::uint32_t rate_packets_ = 0;

  // The top group in the current rate epoch. Only packets sent after an adjustment count, so that
  // one episode of congestion does not cause two cuts.
  bool top_seen_ = false;  // a packet has arrived since it became the top group
  std::uint16_t epoch_ = 0;
  std::uint32_t top_rate_ = 0;  // group_rate in this epoch, B/s
  std::uint64_t epoch_packets_ = 0;
  std::uint64_t epoch_marked_ = 0;
  std::uint64_t epoch_lost_ = 0;

  bool congested_ = false;      // as last reported
  bool overflows_ = false;      // and it loses so many packets that waiting does not help
  bool notified_ = false;       // a report was sent since the epoch began
  unsigned needless_cuts_ = 0;  // since it was last congested
  unsigned congested_in_a_row_ = 0;
  unsigned overflows_in_a_row_ = 0;
  unsigned notifications_at_top_ = 0;  // since the subscription changed
  unsigned settling_ = 0;
  std::array<unsigned, kMaxLayers> added_in_vain_{};  // by layer: times in a row
};

}  // namespace tiercast::sim
