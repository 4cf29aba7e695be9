#include "dataplane/engine/tables/meter.h"

#include <algorithm>

namespace tiercast::engine {

void Meter::configure(const std::optional<MeterConfig>& config, std::int64_t now_ns) {
  config_ = config;
  start_ns_ = now_ns;
  if (!config) return;
  committed_ = {config->committed_burst, 0};
  peak_ = {config->peak_burst, 0};
}

std::uint64_t Meter::fill(Bucket& bucket, double rate, std::uint64_t burst,
                          std::int64_t now_ns) const {
  constexpr long double kMost = 1e19L;  // below 2^64
  const long double given = static_cast<long double>(now_ns - start_ns_) * rate / 1e9L;
  const auto filled = static_cast<std::uint64_t>(std::min(given, kMost));
  const std::uint64_t fresh = filled - bucket.filled;
  bucket.filled = filled;
  const std::uint64_t taken = std::min(fresh, burst - bucket.tokens);
  bucket.tokens += taken;
  return fresh - taken;
}

Meter::Colour Meter::mark(std::uint64_t units, std::int64_t now_ns) {
  if (!config_) return kGreen;
  const MeterConfig& c = *config_;
  const std::uint64_t spare = fill(committed_, c.committed_rate, c.committed_burst, now_ns);
  if (c.single_rate) {  // RFC 2697 section 3
    peak_.tokens += std::min(spare, c.peak_burst - peak_.tokens);
    Bucket& bucket = committed_.tokens >= units ? committed_ : peak_;
    if (bucket.tokens < units) return kRed;
    bucket.tokens -= units;
    return &bucket == &committed_ ? kGreen : kYellow;
  }
  fill(peak_, c.peak_rate, c.peak_burst, now_ns);  // RFC 2698 section 3
  if (peak_.tokens < units) return kRed;
  peak_.tokens -= units;
  if (committed_.tokens < units) return kYellow;
  committed_.tokens -= units;
  return kGreen;
}

}  // namespace tiercast::engine
