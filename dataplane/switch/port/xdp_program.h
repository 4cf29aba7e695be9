// The XDP program in front of an AF_XDP socket.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace tiercast::vswitch {

// Bytes in front of a frame: its arrival in ns of CLOCK_MONOTONIC, in the machine's byte order.
// Left as they were where the driver has no room for them.
constexpr unsigned kXdpStampBytes = 8;

// While it lives, every frame that arrives at an interface goes to a socket. The kernel takes the
// program away when the process ends, however it ends.
class XdpProgram {
 public:
  // In the driver where it has XDP, otherwise in front of the kernel's stack, and there for a veth,
  // whose driver would first copy each frame. socket: bound to queue 0 of the interface. Throws
  // InterfaceError.
  XdpProgram(const std::string& interface, int index, int socket);

 private:
  UniqueFd sockets_;  // map of queue to socket
  UniqueFd program_;
  UniqueFd link_;
};

}  // namespace tiercast::vswitch
