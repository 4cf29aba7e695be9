// PLM's receiver. The spacing of a pair that went through a fair queue tells the session's share of
// the bottleneck, and so how many layers to join (PROTOCOLS 12). The receiver sends nothing.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/common/layered_reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/plm/messages.h"
#include "protocols/schemes/plm/settings.h"

namespace tiercast::plm {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return std::min(check_at_, rejoin_at_); }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

 private:
  // The first packet of a layer's pair, while the second is awaited.
  struct First {
    bool valid = false;
    std::uint32_t seq = 0;
    Time at;
  };

  void on_pair(Time now, Rate share, Sink& sink);
  void on_packets(Time now, std::uint32_t lost, Sink& sink);
  void begin_check(Time now);
  void change_level(Time now, int level, Sink& sink);
  int level() const { return reception_.top() + 1; }
  int level_for(Rate share) const;

  const SessionConfig config_;
  const Settings settings_;
  LayeredReception reception_;
  std::array<First, kMaxLayers> first_;
  Time now_;

  Time check_at_ = Time::never();
  Time rejoin_at_ = Time::never();
  unsigned samples_ = 0;  // since the last check
  Rate least_;            // the smallest share since the last check

  Time window_began_;  // losses count from here; after a drop this lies in the future
  std::uint64_t window_packets_ = 0;
  std::uint64_t window_lost_ = 0;
};

}  // namespace tiercast::plm
