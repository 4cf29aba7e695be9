#include "dataplane/sender/port/kernel_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

namespace tiercast::sender {

UniqueFd hold_kernel_port(std::uint32_t address, std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int shared = 1, least = 0;  // several senders may hold it; the kernel drops what it gets
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(port);
  own.sin_addr.s_addr = htonl(address);
  if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    return UniqueFd();
  }
  return fd;
}

}  // namespace tiercast::sender
