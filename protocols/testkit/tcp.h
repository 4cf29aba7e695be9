// A TCP flow without end: NewReno (RFC 5681, RFC 6582; RFC 6298 for the time-out), which cores are
// compared with where no kernel is at hand. Counts whole packets; every one is acknowledged.
#pragma once

#include <cstdint>
#include <memory>

#include "protocols/testkit/simulator.h"
#include "protocols/testkit/tree.h"

namespace tiercast::testkit {

struct TcpConfig {
  std::uint32_t packet_size = 1000;                    // IP bytes of a data packet
  std::uint32_t ack_size = 40;                         // IP bytes of an acknowledgement
  double max_window = 10'000;                          // receiver's window, packets
  Duration min_timeout = Duration::milliseconds(200);  // as Linux has it
  bool ecn = false;  // RFC 3168: a mark halves the window once a round trip
};

class TcpFlow {
 public:
  // `flow` tells hosts at the same node apart: no session of the tree may have its number.
  TcpFlow(Simulator& simulator, Tree& tree, Tree::Node from, Tree::Node to, std::uint16_t flow,
          const TcpConfig& config = {});
  ~TcpFlow();

  void start();
  void stop();  // sends no new packets

  std::uint64_t delivered_packets() const;  // in order, at the receiver
  double cwnd() const;                      // packets
  std::uint64_t window_cuts() const;        // fast retransmits, marks and time-outs
  Duration srtt() const;

 private:
  class Source;
  class Destination;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Destination> destination_;
};

}  // namespace tiercast::testkit
