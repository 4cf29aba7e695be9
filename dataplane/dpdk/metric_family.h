// One family of figures for Prometheus. Samples are added one by one.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"

namespace tiercast::dpdk {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

class MetricFamilyBuilder {
 public:
  MetricFamilyBuilder(prometheus::MetricType type, std::string name, const char* help);
  void add(MetricLabels labels, double value);
  // In seconds; the histogram's are nanoseconds.
  void add(MetricLabels labels, const Histogram& histogram);
  prometheus::MetricFamily take() { return std::move(family_); }

 private:
  prometheus::ClientMetric& add(MetricLabels labels);
  prometheus::MetricFamily family_;
};

}  // namespace tiercast::dpdk
