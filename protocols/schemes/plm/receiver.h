// PLM's receiver: the spacing of a pair that went through a fair queue says what share of the
// bottleneck the session has, and so how many layers (as ns-2's tcl/plm/plm.tcl has it). It sends
// nothing.
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
  Time next_timer() const override { return rejoin_at_; }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

 private:
  // The first packet of a layer's pair, whose second is awaited.
  struct First {
    bool valid = false;
    std::uint32_t seq = 0;
    Time at;
  };

  void on_pair(Time now, Rate share, Sink& sink);
  void drop_to_share(Time now, Rate share, Sink& sink);
  void check(Time now, Sink& sink);
  void begin_check(Time now);
  bool on_loss(Time now, std::uint32_t lost, Sink& sink);  // whether it dropped a layer
  void change_level(Time now, int level, Sink& sink);
  int level() const { return reception_.top() + 1; }
  int level_for(Rate share) const;

  const SessionConfig config_;
  const Settings settings_;
  LayeredReception reception_;
  std::array<First, kMaxLayers> first_;
  Time now_;

  Time rejoin_at_ = Time::never();

  Time check_at_ = Time::never();  // never: before the first pair
  unsigned samples_ = 0;           // since the last check
  Rate least_;                     // of them

  bool counting_ = false;  // losses, from one to the end of its window
  Time counting_ends_;
  Time holdoff_ends_;
  std::uint64_t counted_packets_ = 0;
  std::uint64_t counted_lost_ = 0;
};

}  // namespace tiercast::plm
