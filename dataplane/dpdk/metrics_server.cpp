#include "dataplane/dpdk/metrics_server.h"

#include <CivetServer.h>
#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "protocols/base/units.h"

namespace tiercast::dpdk {
namespace {

using prometheus::MetricFamily;

// A client that sends or reads slowly blocks a thread for this long. With so many threads, hundreds
// of such clients do not keep others waiting.
constexpr const char* kThreads = "256";
constexpr const char* kTimeoutMs = "1000";

constexpr int kTooLarge = 413;  // RFC 9110 15.5.14

void check_address(const std::string& address, bool insecure) {
  const std::size_t colon = address.rfind(':');
  char* end = nullptr;
  const long port =
      colon == std::string::npos ? -1 : std::strtol(address.c_str() + colon + 1, &end, 10);
  if (colon == std::string::npos || colon == 0 || *end != '\0' ||
      end == address.c_str() + colon + 1 || port < 1 || port > 65535 ||
      address.find(',') != std::string::npos) {
    throw ConfigError(fmt::format(
        "--metrics: '{}' is not ADDRESS:PORT with a port from 1 to 65535, such as 127.0.0.1:9464",
        address));
  }
  const std::string host = address.substr(0, colon);
  if (!insecure && !host.starts_with("127.") && host != "[::1]" && host != "localhost") {
    throw ConfigError(fmt::format(
        "--metrics {}: everyone who reaches this address could read; valid: an address of the "
        "loopback device, such as 127.0.0.1:{}, and a proxy with TLS in front of it, or --insecure",
        address, port));
  }
}

// Called before a request is served; returns its status if it was answered here. The library reads
// what is left of a request's body before it looks after another client. As long as a byte comes
// within kTimeoutMs, that takes as long as the client likes. Requests for figures have no body.
int refuse_body(mg_connection* client) {
  const bool has_body = mg_get_request_info(client)->content_length > 0 ||
                        mg_get_header(client, "Transfer-Encoding") != nullptr;
  if (!has_body) return 0;
  // Also has the library close the connection at once.
  mg_send_http_error(client, kTooLarge, "%s", "a request without a body is expected");
  return kTooLarge;
}

}  // namespace

class MetricsServer::Source : public prometheus::Collectable {
 public:
  explicit Source(std::function<std::vector<MetricFamily>()> take) : take_(std::move(take)) {}
  std::vector<MetricFamily> Collect() const override { return take_(); }

 private:
  std::function<std::vector<MetricFamily>()> take_;
};

MetricsServer::MetricsServer(const std::string& address, bool insecure,
                             std::function<std::vector<MetricFamily>()> take)
    : source_(std::make_shared<Source>(std::move(take))) {
  check_address(address, insecure);
  CivetCallbacks callbacks;
  callbacks.begin_request = refuse_body;
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", kThreads,
                                 "request_timeout_ms", kTimeoutMs},
        &callbacks);
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format(
        "--metrics: cannot listen at {}: the address is in use, or is not this machine's",
        address));
  }
  exposer_->RegisterCollectable(source_);
}

MetricsServer::~MetricsServer() = default;

}  // namespace tiercast::dpdk
