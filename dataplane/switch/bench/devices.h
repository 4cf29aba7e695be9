// The DPDK devices of the benchmarks: one for each port, without a NIC.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/dpdk/dpdk_port.h"

namespace tiercast::bench {

// Starts the EAL with devices `driver`1 to `driver`5 (net_null or net_ring). log_level: of DPDK.
inline void start_devices(const char* program, const std::string& driver, const char* log_level) {
  std::vector<std::string> eal = {program,
                                  "--no-huge",
                                  "-m",
                                  "256",
                                  "--no-shconf",
                                  "--no-pci",
                                  "--no-telemetry",
                                  fmt::format("--log-level={}", log_level),
                                  "--lcores=0@(0-1)"};
  for (std::uint32_t port = 1; port <= kPorts; ++port) {
    // Only the first of the null devices gives frames.
    const char* parameters = driver != "net_null" ? "" : port == 1 ? ",size=1500" : ",no-rx=1";
    eal.push_back(fmt::format("--vdev={}{}{}", driver, port, parameters));
  }
  vswitch::init_eal(eal);
}

}  // namespace tiercast::bench
