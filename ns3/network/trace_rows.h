// Rows about sampled packets (kind `trace`) and about the program's registers and counters
// (`state`). SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>

#include "ns3/network/records.h"
#include "ns3/network/virtual_network.h"

namespace tiercast::ns3_runtime {

class TraceRows {
 public:
  // Schedules the reads of state. Throws ConfigError for an array or a cell that the program does
  // not have.
  TraceRows(VirtualNetwork& network, Records& records, const v1::Scenario& scenario);

  // Records the packets that have left traced ports since the last call. In a pause of the kernel.
  void report();

 private:
  void report(const v1::SimulatedSwitch& at);
  // Reading changes nothing, so a run is the same with and without.
  void read_state(const std::string& at, const v1::StateRead& read);
  void read_later(const std::string& at, const v1::StateRead& read);

  VirtualNetwork& network_;
  Records& records_;
  const v1::Scenario& scenario_;
};

}  // namespace tiercast::ns3_runtime
