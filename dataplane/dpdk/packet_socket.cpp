#include "dataplane/dpdk/packet_socket.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tiercast::dpdk {

int find_packet_socket(unsigned index) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_ll address{};
    socklen_t length = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
        address.sll_family == AF_PACKET && address.sll_ifindex == static_cast<int>(index)) {
      return fd;
    }
  }
  return -1;
}

// Before Linux 4.20 there is no such option: the copies are then counted as foreign.
void ignore_outgoing(int packet_socket) {
  const int on = 1;
  setsockopt(packet_socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
}

void receive_for(int packet_socket, unsigned index, const agent::MacAddress& mac) {
  packet_mreq request{};
  request.mr_ifindex = static_cast<int>(index);
  request.mr_type = PACKET_MR_UNICAST;
  request.mr_alen = static_cast<unsigned short>(mac.size());
  std::memcpy(request.mr_address, mac.data(), mac.size());
  setsockopt(packet_socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request);
}

}  // namespace tiercast::dpdk
