// The steady-state throughput of a TCP connection (Padhye, Firoiu, Towsley and Kurose; PROTOCOLS
// 1).
#pragma once

#include "protocols/base/units.h"

namespace tiercast {

struct TcpPath {
  double packet_size = 1000;   // s: IP bytes, > 0
  Duration rtt;                // R, > 0
  Duration timeout;            // T0, > 0
  double packets_per_ack = 1;  // b
  double max_window = 0;       // packets; 0: no bound
  // Bounds the factor 3 sqrt(3bp/8) of the time-out term at 1, as the model does. TFMCC omits the
  // bound, and so gives lower rates above a loss rate of 0.3.
  bool clamp = true;
};

// `loss_event_rate`: p, 0 < p <= 1; larger values count as 1. Zero or less gives the rate of
// max_window, or infinity without one.
Rate tcp_throughput(const TcpPath& path, double loss_event_rate);

// The p for which tcp_throughput() equals `rate`, in 1e-8 .. 1 (PROTOCOLS 1.3). Found by bisection
// to 1e-9 of p's range on a logarithmic scale.
double tcp_loss_event_rate(const TcpPath& path, Rate rate);

}  // namespace tiercast
