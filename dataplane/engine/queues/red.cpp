#include "dataplane/engine/queues/red.h"

#include <algorithm>
#include <cmath>

#include "dataplane/engine/packet/random.h"

namespace tiercast::engine {

std::string Red::wrong(const RedConfig& red) {
  constexpr double kMost = 2147483648.0;  // 2^31
  const auto is = [](const char* name, double value) {
    return std::string(name).append(" ").append(std::to_string(value)).append(", valid: ");
  };
  const auto chance = [](double value) { return value > 0 && value <= 1; };  // and no NaN
  if (!(red.max_th > 0 && red.max_th <= kMost))
    return is("max_th", red.max_th) + "above 0, to 2^31";
  if (!(red.min_th >= 0 && red.min_th < red.max_th)) {
    return is("min_th", red.min_th) + "0 or more, below max_th " + std::to_string(red.max_th);
  }
  if (!chance(red.max_p)) return is("max_p", red.max_p) + "above 0, to 1";
  if (!chance(red.weight)) return is("weight", red.weight) + "above 0, to 1";
  if (!(red.mean_packet_bytes >= 1 && red.mean_packet_bytes <= kMost)) {
    return is("mean_packet_bytes", red.mean_packet_bytes) + "1 to 2^31";
  }
  return {};
}

Red::Verdict Red::arrive(std::uint32_t waiting, std::int64_t idle_ns, double rate_bps) {
  // While the link was idle it could have sent so many packets, each of which would have found the
  // queue empty.
  const double missed =
      idle_ns == kBusy
          ? 0
          : std::floor(static_cast<double>(idle_ns) * rate_bps / (8e9 * config_.mean_packet_bytes));
  const double kept = missed == 0 ? 1 - config_.weight : std::pow(1 - config_.weight, missed + 1);
  average_ = kept * average_ + config_.weight * waiting;
  ++count_;
  if (average_ < config_.min_th || waiting < kMinWaiting) {
    above_ = false;
    return Verdict::kPass;
  }
  if (average_ >= (config_.gentle ? 2 : 1) * config_.max_th) return Verdict::kForced;
  if (!above_) {
    above_ = true;
    count_ = 1;
    return Verdict::kPass;
  }
  if (next_uniform(random_) >= spread(chance_of_average())) return Verdict::kPass;
  count_ = 0;
  return Verdict::kEarly;
}

double Red::chance_of_average() const {
  if (average_ < config_.max_th) {
    return config_.max_p * (average_ - config_.min_th) / (config_.max_th - config_.min_th);
  }
  return config_.max_p + (1 - config_.max_p) * (average_ - config_.max_th) / config_.max_th;
}

double Red::spread(double chance) const {
  const double sum = count_ * chance;
  if (config_.wait) {  // 1/p_b to 2/p_b packets apart
    if (sum < 1) return 0;
    return sum < 2 ? std::min(1.0, chance / (2 - sum)) : 1;
  }
  return sum < 1 ? std::min(1.0, chance / (1 - sum)) : 1;  // 1 to 1/p_b
}

}  // namespace tiercast::engine
