// PLM's sender: layers of equal rates. Packets leave in pairs, back to back (PROTOCOLS 12).
#pragma once

#include <array>
#include <cstdint>

#include "protocols/core/core.h"
#include "protocols/schemes/plm/settings.h"

namespace tiercast::plm {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time, Sink&) override {}
  // Receivers of PLM send nothing, so any message is invalid.
  void receive(Time, const Arrival&, Sink&) override { ++invalid_; }
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override;
  void stop(Time now, Sink& sink) override { membership(now, -1, sink); }
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  bool ecn_capable() const override { return settings_.ecn; }

 private:
  struct Layer {
    Time next_pair = Time::never();
    std::uint32_t seq = 0;
    std::uint8_t pair = 1;  // of the next packet
  };

  const SessionConfig config_;
  const Settings settings_;
  const Duration interval_;  // between the pairs of a layer
  std::array<Layer, kMaxLayers> layers_{};
  unsigned active_layers_ = 0;
  std::uint64_t invalid_ = 0;
};

}  // namespace tiercast::plm
