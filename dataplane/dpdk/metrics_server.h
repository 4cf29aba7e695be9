// Serves figures to Prometheus, over HTTP at /metrics.
//
// Threads of the HTTP library serve requests, and take the figures for each. They touch nothing
// that a packet waits for.
//
// There is no TLS: civetweb of Debian 12 ends the process when a client shows a certificate. So
// only programs of this machine may read, unless the user says otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Exposer;
struct MetricFamily;
}  // namespace prometheus

namespace tiercast::dpdk {

class MetricsServer {
 public:
  // `address`: "127.0.0.1:9464", "[::1]:9464" or, if `insecure`, "0.0.0.0:9464". `take` is called
  // on the server's threads, possibly on several at the same time. ConfigError: not an address, not
  // one of the loopback device though not `insecure`, or nothing can listen there.
  MetricsServer(const std::string& address, bool insecure,
                std::function<std::vector<prometheus::MetricFamily>()> take);
  ~MetricsServer();

 private:
  class Source;
  std::shared_ptr<Source> source_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace tiercast::dpdk
