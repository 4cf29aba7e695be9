// Token buckets that decide a packet's colour.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/engine/control/control.h"

namespace tiercast::engine {

class Meter {
 public:
  enum Colour : std::uint8_t { kGreen = 0, kYellow = 1, kRed = 2 };  // as v1model's MeterColor

  // Fills the buckets. Without a config every packet is green.
  void configure(const std::optional<MeterConfig>& config, std::int64_t now_ns);
  const std::optional<MeterConfig>& config() const { return config_; }
  // units: the packet's bytes, or 1. now_ns must not go backwards.
  Colour mark(std::uint64_t units, std::int64_t now_ns);

 private:
  // Counts tokens from the time of configuration, so that rounding errors do not accumulate.
  struct Bucket {
    std::uint64_t tokens = 0;
    std::uint64_t filled = 0;  // tokens that the rate has given since the configuration
  };
  // Returns the tokens that the bucket had no room for.
  std::uint64_t fill(Bucket& bucket, double rate, std::uint64_t burst, std::int64_t now_ns) const;

  std::optional<MeterConfig> config_;
  std::int64_t start_ns_ = 0;
  Bucket committed_, peak_;
};

}  // namespace tiercast::engine
