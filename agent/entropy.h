// Random numbers that nobody can repeat, from the operating system.
#pragma once

#include <cstdint>

namespace tiercast::agent {

std::uint64_t entropy();

}  // namespace tiercast::agent
