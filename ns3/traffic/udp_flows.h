// Competing traffic without congestion control: UDP at a constant rate, always or in bursts.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <memory>
#include <vector>

#include "ns3/kernel/kernel.h"
#include "ns3/network/records.h"
#include "ns3/network/virtual_network.h"

namespace tiercast::ns3_runtime {

class UdpFlows {
 public:
  UdpFlows(Kernel& kernel, VirtualNetwork& network, Records& records, const v1::Scenario& scenario);
  ~UdpFlows();

  // Writes a record of each flow now: packets and IP bytes sent and received. In a pause of the
  // kernel.
  void report();

 private:
  class Source;
  class Sink;

  Records& records_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace tiercast::ns3_runtime
