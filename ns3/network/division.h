// How a network is divided among logical processes, and these among threads.
// SPDX-License-Identifier: GPL-2.0-only
//
// A process is a switch with its hosts, or several switches whose links are too short to let them
// run side by side. ns-3 has one list of events, so all switches with hosts of TCP flows are one
// process. The processes, and so the rows, do not depend on the threads.
#pragma once

#include <cstdint>
#include <vector>

#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

struct Division {
  std::vector<std::uint32_t> process_of;  // of each switch, in the scenario's order
  std::vector<std::uint32_t> thread_of;   // of each process: 0 to the number of threads - 1
  std::int64_t window_ns;                 // no message between processes travels shorter

  bool operator==(const Division&) const = default;
};

// `threads`: 1 or more; there may be fewer, as no process has two. Each gets neighbouring switches,
// with as many ports as the others'. Throws ConfigError for a switch or host that is not there.
Division divide(const v1::Scenario& scenario, std::uint32_t threads);

}  // namespace tiercast::ns3_runtime
