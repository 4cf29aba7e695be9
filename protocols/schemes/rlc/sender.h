// RLC's sender: each layer doubles the rate. There are synchronization points, each after a burst
// that shows what one more layer would do (MLDA V-B; PROTOCOLS 11).
//
// The n-th point is one of layers 0 .. i, where 2^i is the largest power of two that divides n. So
// layer i has one every 2^i intervals, and each point of a layer is also one of the layers below.
//
//   rate    ──────┐ 2r ┌── 0 ──┌──────
//   of a layer r  └────┘       │
//                burst ^ point  pause
#pragma once

#include <array>
#include <cstdint>

#include "protocols/core/core.h"
#include "protocols/schemes/rlc/settings.h"

namespace tiercast::rlc {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  // Receivers of RLC send nothing, so any message is invalid.
  void receive(Time, const Arrival&, Sink&) override { ++invalid_; }
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return next_; }
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  bool ecn_capable() const override { return settings_.ecn; }

 private:
  // The phase of layers 0 .. probed_. The other layers send at their rates.
  enum class Phase { kRest, kBurst, kPause };

  void apply_rates(Sink& sink);
  int top_of(std::uint64_t point) const;

  const SessionConfig config_;
  const Settings settings_;
  std::array<std::uint32_t, kMaxLayers> seq_{};
  std::array<bool, kMaxLayers> sync_point_{};  // the layer's next packet carries one
  std::array<Rate, kMaxLayers> paced_{};
  unsigned active_layers_ = 0;
  Phase phase_ = Phase::kRest;
  int probed_ = -1;
  std::uint64_t point_ = 1;  // number of the next point
  Time point_at_ = Time::never();
  Time next_ = Time::never();
  std::uint64_t invalid_ = 0;
};

}  // namespace tiercast::rlc
