// The simulator's time.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ns3/simulator.h>

#include <cstdint>

namespace tiercast::ns3_runtime {

inline std::int64_t now_ns() { return ns3::Simulator::Now().GetNanoSeconds(); }

}  // namespace tiercast::ns3_runtime
