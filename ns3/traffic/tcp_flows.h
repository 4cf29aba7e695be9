// Competing traffic: ns-3's own TCP, on ns-3 nodes with its internet stack. A bridge of frames
// connects them with our switches. All its hosts are in one logical process
// (ns3/network/division.h).
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ns3/kernel/kernel.h"
#include "ns3/network/records.h"
#include "ns3/network/virtual_network.h"

namespace tiercast::ns3_runtime {

class TcpStation;

class TcpFlows {
 public:
  // Throws ConfigError for an unknown congestion control.
  TcpFlows(Kernel& kernel, VirtualNetwork& network, Records& records, const v1::Scenario& scenario);
  ~TcpFlows();

  // Writes a record of each flow now: IP bytes that its receiving end has read; the sender's window
  // (packets) and round trip, with their means since the last record; and how often the window has
  // been cut so far, by fast retransmit and by time-out. In a pause of the kernel.
  void report();

 private:
  class Flow;

  TcpStation& station(const std::string& host);

  VirtualNetwork& network_;
  Records& records_;
  std::vector<std::unique_ptr<TcpStation>> stations_;
  std::vector<std::unique_ptr<Flow>> flows_;
};

}  // namespace tiercast::ns3_runtime
