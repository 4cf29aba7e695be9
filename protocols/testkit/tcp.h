// An endless TCP flow: NewReno (RFC 5681, RFC 6582; RFC 6298 for the time-out). Tests compare cores
// with it where no kernel is available. Counts in whole packets; every packet is acknowledged.
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
  Duration min_timeout = Duration::milliseconds(200);  // as in Linux
  bool ecn = false;  // RFC 3168: a mark halves the window, at most once per round trip
};

class TcpFlow {
 public:
  // `flow` distinguishes hosts at the same node. It must not be the number of a session of the
  // tree.
  TcpFlow(Simulator& simulator, Tree& tree, Tree::Node from, Tree::Node to, std::uint16_t flow,
          const TcpConfig& config = {});
  ~TcpFlow();

  void start();
  void stop();  // sends no new packets from now on

  std::uint64_t delivered_packets() const;  // in order, at the receiver
  double cwnd() const;                      // packets
  std::uint64_t window_cuts() const;        // by fast retransmits, marks and time-outs
  Duration srtt() const;

 private:
  class Source;
  class Destination;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Destination> destination_;
};

}  // namespace tiercast::testkit
