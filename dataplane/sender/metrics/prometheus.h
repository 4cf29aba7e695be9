// A sender's figures for Prometheus.
#pragma once

#include <vector>

#include "dataplane/sender/metrics/statistics.h"

namespace prometheus {
struct MetricFamily;
}  // namespace prometheus

namespace tiercast::sender {

// docs/agents.md lists the names of the figures.
std::vector<prometheus::MetricFamily> metric_families(const Statistics& statistics);

}  // namespace tiercast::sender
