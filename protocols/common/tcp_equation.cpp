#include "protocols/common/tcp_equation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tiercast {

Rate tcp_throughput(const TcpPath& path, double loss_event_rate) {
  const double rtt = path.rtt.seconds();
  const double bound = path.max_window > 0 ? path.max_window * path.packet_size / rtt
                                           : std::numeric_limits<double>::infinity();
  if (loss_event_rate <= 0) return Rate::bytes_per_second(bound);
  const double p = std::min(loss_event_rate, 1.0);
  const double b = path.packets_per_ack;
  const double timeouts = 3 * std::sqrt(3 * b * p / 8);
  const double per_packet =
      rtt * std::sqrt(2 * b * p / 3) + path.timeout.seconds() *
                                           (path.clamp ? std::min(1.0, timeouts) : timeouts) * p *
                                           (1 + 32 * p * p);
  return Rate::bytes_per_second(std::min(bound, path.packet_size / per_packet));
}

double tcp_loss_event_rate(const TcpPath& path, Rate rate) {
  double low = std::log(1e-8);
  double high = 0;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (tcp_throughput(path, std::exp(middle)) > rate ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

}  // namespace tiercast
