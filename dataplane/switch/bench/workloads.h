// The packets that the benchmarks send through p4src's program, and the entries that forward them.
//
// All packets arrive on port 1: SIM data of group 239.192.0.8, which the program copies to ports 2
// to 5; SIM feedback and TCP data for host 10.0.0.2 at port 2. scripts/bench_switch.py writes the
// same entries over P4Runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::bench {

inline constexpr std::uint32_t kPorts = 5;
inline constexpr std::uint32_t kCopies = 4;

struct Workload {
  std::string name;
  unsigned copies;  // frames that leave for each one that arrives
  std::vector<std::byte> frame;
};

// sim_data (IP length 1000 B), sim_feedback (one record), tcp (IP length 1000 B).
const std::vector<Workload>& workloads();
// Throws std::invalid_argument, which names the valid workloads.
const Workload& workload(const std::string& name);

// A TCP frame like the workload's, but of another length. ip_length: 40 to 65521 bytes.
std::vector<std::byte> tcp_frame(std::size_t ip_length);

// All throw std::runtime_error with the switch's own text.
void require(const engine::Status& status);
void install_entries(engine::Switch& to);
// For tests/data/p4/router.p4: TCP goes to port 2; or to ports 2 to 5, with this instance.
void install_router_entries(engine::Switch& to);
void install_router_copies(engine::Switch& to, std::uint16_t instance);

}  // namespace tiercast::bench
