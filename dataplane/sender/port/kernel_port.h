// Where the kernel has the sender's address, too, as at a node that also receives a session.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace tiercast::sender {

// Keeps the kernel from answering what comes to this UDP port of `address` (host order) with "port
// unreachable", by a socket that nobody reads. Without a descriptor if the kernel does not have the
// address, and so answers nothing.
UniqueFd hold_kernel_port(std::uint32_t address, std::uint16_t port);

}  // namespace tiercast::sender
