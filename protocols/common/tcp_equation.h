// The throughput of a TCP connection in steady state (Padhye, Firoiu, Towsley and Kurose;
// PROTOCOLS 1).
#pragma once

#include "protocols/base/units.h"

namespace tiercast {

struct TcpPath {
  double packet_size = 1000;   // s: IP bytes, > 0
  Duration rtt;                // R, > 0
  Duration timeout;            // T0, > 0
  double packets_per_ack = 1;  // b
  double max_window = 0;       // packets; 0: no bound
  // Bounds the time-out's term as the model does. TFMCC leaves it out, and so falls lower above a
  // loss rate of 0.3.
  bool clamp = true;
};

// `loss_event_rate`: p, 0 < p <= 1 (above: taken as 1); zero or less gives the window's bound, or
// infinity.
Rate tcp_throughput(const TcpPath& path, double loss_event_rate);

// The p that makes tcp_throughput() equal `rate`: bisection to 1e-9 of p's range on a logarithmic
// scale; 1e-8 .. 1 (PROTOCOLS 1.3).
double tcp_loss_event_rate(const TcpPath& path, Rate rate);

}  // namespace tiercast
