#include "protocols/schemes/mlda/lda_plus.h"

#include <algorithm>
#include <cmath>

#include "protocols/common/tcp_equation.h"

namespace tiercast::mlda {

Rate LdaPlus::adapt(Rate rate, const Path& path) {
  if (path.loss > 0) {
    increase_ = initial_increase_;
    TcpPath tcp;
    tcp.packet_size = path.packet_size;
    tcp.rtt = path.rtt;
    tcp.timeout = path.rtt * 4;
    return std::max(rate * (1 - std::sqrt(path.loss)), tcp_throughput(tcp, path.loss));  // MLDA (1)
  }
  const double load = std::min(1.0, rate / path.bottleneck);  // above R, A_add would fall without
                                                              // loss
  const double tau = path.rtt.seconds();
  increase_ = increase_ * (2 - load);                     // A_add: at most doubles
  const Rate exponential = rate * -std::expm1(load - 1);  // A_exp: zero at R
  const Rate tcp =
      Rate::bytes_per_second(path.packet_size * (path.interval.seconds() / tau + 1) / (2 * tau));
  return rate + std::min({increase_, exponential, tcp});
}

}  // namespace tiercast::mlda
