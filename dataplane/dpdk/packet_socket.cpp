#include "dataplane/dpdk/packet_socket.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <rte_devargs.h>
#include <rte_kvargs.h>
#include <rte_mbuf_core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "protocols/base/units.h"

namespace tiercast::dpdk {
namespace {

constexpr std::size_t kUsualFrame = 2048;  // the driver's, without framesz
// The driver reserves this of a frame, although what is received starts later.
constexpr std::size_t kRingHeader = TPACKET2_HDRLEN - sizeof(sockaddr_ll);
// Where the kernel puts the IP packet in a frame (net/packet/af_packet.c, tpacket_rcv): at least 16
// bytes of link header, after the ring's header and an address.
constexpr std::size_t kPacketAt = TPACKET_ALIGN(TPACKET2_HDRLEN + 16);
constexpr std::size_t kLargestFrame = UINT16_MAX - RTE_PKTMBUF_HEADROOM + kRingHeader;

// The value of a number among the device's arguments. As the driver reads them: the last one
// counts.
std::size_t argument(const rte_device& device, const char* name, std::size_t usual) {
  const rte_devargs* const given = rte_dev_devargs(&device);
  if (given == nullptr || given->args == nullptr) return usual;
  rte_kvargs* const list = rte_kvargs_parse(given->args, nullptr);
  if (list == nullptr) return usual;
  const arg_handler_t take = [](const char*, const char* value, void* out) {
    if (value != nullptr) *static_cast<std::size_t*>(out) = std::strtoul(value, nullptr, 10);
    return 0;
  };
  rte_kvargs_process(list, name, take, &usual);
  rte_kvargs_free(list);
  return usual;
}

}  // namespace

PacketRing::PacketRing(const rte_device& device)
    : device_(rte_dev_name(&device)),
      frame_bytes_(argument(device, "framesz", kUsualFrame)),
      block_bytes_(argument(device, "blocksz", static_cast<std::size_t>(getpagesize()))) {}

void PacketRing::check(std::uint32_t ip_bytes) const {
  if (frame_bytes_ > kLargestFrame) {
    throw ConfigError(fmt::format("{}: framesz: {}; valid: up to {}", device_, frame_bytes_,
                                  kLargestFrame / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT));
  }
  // The driver looks for frames one right after the other, and the kernel begins each block anew.
  if (block_bytes_ % frame_bytes_ != 0) {
    throw ConfigError(fmt::format(
        "{}: blocksz: {} is not filled by frames of framesz={}; valid: whole pages that are a "
        "multiple of it",
        device_, block_bytes_, frame_bytes_));
  }
  if (const std::size_t least = TPACKET_ALIGN(kPacketAt + ip_bytes); frame_bytes_ < least) {
    throw ConfigError(fmt::format(
        "--packet-size: {} does not fit the frames of {}, framesz={}; valid: framesz={} "
        "or more, in steps of {}, and a blocksz that is a multiple of it",
        ip_bytes, device_, frame_bytes_, least, TPACKET_ALIGNMENT));
  }
}

std::size_t PacketRing::received_bytes() const { return frame_bytes_ - kRingHeader; }

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
