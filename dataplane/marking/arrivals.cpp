#include "dataplane/marking/arrivals.h"

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/config_error.h"

namespace tiercast::marking {
namespace {

constexpr std::uint32_t kLeastBytes = 28, kMostBytes = 65'000, kMostEcn = 3;
constexpr double kMostBps = 1e12;
constexpr double kMostBurst = 1e6;
constexpr double kMostShare = 1e6;
constexpr int kMostPhases = 1000;
constexpr std::int64_t kMostNs = 1'000'000'000'000'000;  // of a phase: all are within 64 bits

std::string text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

void require(bool holds, const std::string& what, const char* valid) {
  if (!holds) throw ConfigError("trial: " + what + "; valid: " + valid);
}

void check(const v1::MarkingTrial& trial) {
  require(trial.has_port() && trial.port().rate_bps() > 0, "port", "one with a rate");
  require(trial.classes_size() > 0, "classes", "one or more");
  require(trial.phases_size() > 0 && trial.phases_size() <= kMostPhases,
          "phases: " + std::to_string(trial.phases_size()), "1 to 1000");
  for (const v1::TrafficClass& one : trial.classes()) {
    require(one.ecn() <= kMostEcn, "ecn " + std::to_string(one.ecn()), "0 to 3");
    require(one.packet_bytes() >= kLeastBytes && one.packet_bytes() <= kMostBytes,
            "packet_bytes " + std::to_string(one.packet_bytes()), "28 to 65000");
    require(one.share() > 0 && one.share() <= kMostShare, "share " + text(one.share()),
            "above 0, up to 1e6");
  }
  for (const v1::TrialPhase& phase : trial.phases()) {
    require(phase.duration_ns() > 0 && phase.duration_ns() <= kMostNs,
            "duration_ns " + std::to_string(phase.duration_ns()), "1 to 1e15");
    require(phase.offered_bps() > 0 && phase.offered_bps() <= kMostBps,
            "offered_bps " + text(phase.offered_bps()), "above 0, up to 1e12");
    require(phase.arrivals() != v1::TrialPhase::ARRIVALS_UNSPECIFIED, "arrivals",
            "POISSON, CONSTANT, BURSTS");
    require(phase.arrivals() != v1::TrialPhase::BURSTS ||
                (phase.mean_burst() >= 1 && phase.mean_burst() <= kMostBurst),
            "mean_burst " + text(phase.mean_burst()), "1 to 1e6");
  }
}

class Process {
 public:
  explicit Process(const v1::MarkingTrial& trial) : random_(trial.seed()) {
    std::vector<double> shares;
    double total = 0;
    for (const v1::TrafficClass& one : trial.classes()) {
      shares.push_back(one.share());
      total += one.share();
      mean_bits_ += one.share() * 8 * one.packet_bytes();
    }
    mean_bits_ /= total;
    class_ = std::discrete_distribution<std::size_t>(shares.begin(), shares.end());
  }

  // ns. The mean is that of all classes together.
  double gap(const v1::TrialPhase& phase) {
    const double burst = phase.arrivals() == v1::TrialPhase::BURSTS ? phase.mean_burst() : 1;
    const double mean = 1e9 * burst * mean_bits_ / phase.offered_bps();
    return phase.arrivals() == v1::TrialPhase::CONSTANT ? mean : mean * exponential_(random_);
  }

  std::size_t burst(const v1::TrialPhase& phase) {
    if (phase.arrivals() != v1::TrialPhase::BURSTS) return 1;
    return 1 + std::geometric_distribution<std::size_t>(1 / phase.mean_burst())(random_);
  }

  std::size_t traffic_class() { return class_(random_); }

 private:
  std::mt19937_64 random_;
  std::exponential_distribution<double> exponential_;
  std::discrete_distribution<std::size_t> class_;
  double mean_bits_ = 0;
};

}  // namespace

void for_each_arrival(const v1::MarkingTrial& trial, const OnRate& on_rate,
                      const OnArrival& on_arrival) {
  check(trial);
  Process process(trial);
  std::int64_t begins = 0;
  for (const v1::TrialPhase& phase : trial.phases()) {
    if (phase.rate_bps() > 0) on_rate(begins, phase.rate_bps());
    const std::int64_t ends = begins + phase.duration_ns();
    double next = static_cast<double>(begins);
    for (;;) {
      const std::size_t burst = process.burst(phase);
      next += process.gap(phase);
      if (next >= static_cast<double>(ends)) break;
      for (std::size_t i = 0; i < burst; ++i) {
        on_arrival(static_cast<std::int64_t>(next), process.traffic_class());
      }
    }
    begins = ends;
  }
}

}  // namespace tiercast::marking
