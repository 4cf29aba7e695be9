// The analyser's figures for Prometheus. docs/analyser.md lists their names.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "dataplane/receiver/show/report.h"

namespace tiercast::receiver {

// Of the first kStreams streams of each port by themselves; of all in sums.
inline constexpr std::uint32_t kMetricStreams = 1000;
std::vector<prometheus::MetricFamily> metric_families(const Ports& ports);

}  // namespace tiercast::receiver
