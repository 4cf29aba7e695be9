// Counts what operator new hands out in a benchmark. Link tiercast_bench_allocations, which
// replaces operator new in the whole program.
#pragma once

#include <cstddef>

namespace tiercast::bench {

// So far, on all threads.
std::size_t allocations();

}  // namespace tiercast::bench
