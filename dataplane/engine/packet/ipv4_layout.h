// Where IPv4 stands in a frame.
#pragma once

#include <cstddef>

namespace tiercast::engine {

inline constexpr std::size_t kIp = 14;          // behind Ethernet's header
inline constexpr std::size_t kMinIpBytes = 20;  // a header without options

}  // namespace tiercast::engine
