// RLM's sender: layers of fixed rates. It repeats receivers' announcements to all of them.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/common/per_second.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rlm/settings.h"

namespace tiercast::rlm {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink&) override { now_ = now; }
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time, Sink&) override {}
  Time next_timer() const override { return Time::never(); }  // it has no timers
  void stop(Time now, Sink& sink) override { membership(now, -1, sink); }
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  bool ecn_capable() const override { return settings_.ecn; }

 private:
  const SessionConfig config_;
  const Settings settings_;
  std::array<std::uint32_t, kMaxLayers> seq_{};
  unsigned active_layers_ = 0;
  std::uint64_t invalid_ = 0;
  Time now_;
  PerSecond reflections_;
};

}  // namespace tiercast::rlm
