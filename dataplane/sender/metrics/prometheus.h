// A sender's figures for Prometheus, over HTTP at /metrics.
//
// Two threads of the HTTP library serve requests. For each request they take a snapshot
// (statistics.h). They touch nothing that a packet waits for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/sender/metrics/statistics.h"

namespace prometheus {
class Exposer;
struct MetricFamily;
}  // namespace prometheus

namespace tiercast::sender {

// docs/agents.md lists the names of the figures.
std::vector<prometheus::MetricFamily> metric_families(const Statistics& statistics);

class MetricsServer {
 public:
  // `address`: "127.0.0.1:9464", "[::1]:9464" or "0.0.0.0:9464". `take` is called on the server's
  // threads, possibly on two at the same time. ConfigError: not an address, or nothing can listen
  // there.
  MetricsServer(const std::string& address, std::function<Statistics()> take);
  ~MetricsServer();

 private:
  class Source;
  std::shared_ptr<Source> source_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace tiercast::sender
