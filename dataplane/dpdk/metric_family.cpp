#include "dataplane/dpdk/metric_family.h"

#include <limits>

namespace tiercast::dpdk {
namespace {

// Bounds of the histograms' buckets: just below 2^6 .. 2^30 ns, which are also bounds of bins.
constexpr unsigned kFirstBucket = 6, kLastBucket = 30;

}  // namespace

MetricFamilyBuilder::MetricFamilyBuilder(prometheus::MetricType type, std::string name,
                                         const char* help)
    : family_() {
  family_.type = type;
  family_.name = std::move(name);
  family_.help = help;
}

void MetricFamilyBuilder::add(MetricLabels labels, double value) {
  prometheus::ClientMetric& metric = add(std::move(labels));
  metric.counter.value = value;
  metric.gauge.value = value;
}

void MetricFamilyBuilder::add(MetricLabels labels, const Histogram& histogram) {
  auto& out = add(std::move(labels)).histogram;
  out.sample_count = histogram.count();
  std::uint64_t below = 0;
  std::size_t bin = 0;
  const auto take_bin = [&] {
    const std::uint64_t count = histogram.in_bin(bin);
    below += count;
    out.sample_sum +=
        static_cast<double>(count) * static_cast<double>(Histogram::upper_bound(bin)) * 1e-9;
    ++bin;
  };
  for (unsigned bits = kFirstBucket; bits <= kLastBucket; ++bits) {
    const std::uint64_t bound = (1ull << bits) - 1;
    while (Histogram::upper_bound(bin) <= bound) take_bin();
    out.bucket.push_back({below, static_cast<double>(bound) * 1e-9});
  }
  while (bin < Histogram::kBins) take_bin();
  out.bucket.push_back({below, std::numeric_limits<double>::infinity()});
}

prometheus::ClientMetric& MetricFamilyBuilder::add(MetricLabels labels) {
  family_.metric.emplace_back().label = std::move(labels);
  return family_.metric.back();
}

}  // namespace tiercast::dpdk
