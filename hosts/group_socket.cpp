#include "hosts/group_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "agent/address.h"
#include "agent/interface.h"

namespace tiercast::hosts {
namespace {

// About one second at 6 Mbit/s, as the kernel counts (2304 bytes for a packet of 1000).
constexpr int kReceiveBuffer = 2 * 1024 * 1024;
// Errors after which receive() tries again before it leaves the rest to the next wake-up, so that
// who forges more of them without end does not hold it.
constexpr int kTries = 8;
constexpr unsigned kEcnMask = 3;
constexpr unsigned kCe = 3;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void set_option(int fd, int level, int option, int value, const char* name) {
  if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail(name);
}

}  // namespace

// All that Linux makes of ICMP (icmp(7), accept(2)).
bool is_of_the_network(int error) {
  switch (error) {
    case ECONNREFUSED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EMSGSIZE:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPROTO: return true;
    default: return false;
  }
}

GroupSocket::GroupSocket(const std::string& interface, std::uint16_t port)
    : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      interface_index_(static_cast<int>(agent::interface_index(interface))),
      buffers_(std::make_unique<Buffers>()) {
  const int fd = fd_.get();
  if (fd < 0) fail("socket");
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0,
             "IP_MULTICAST_ALL");  // only the groups that this socket joined
  set_option(fd, IPPROTO_IP, IP_PKTINFO, 1, "IP_PKTINFO");
  set_option(fd, IPPROTO_IP, IP_RECVTOS, 1, "IP_RECVTOS");
  set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1, "SO_TIMESTAMPNS");
  set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1, "SO_RXQ_OVFL");
  // Without CAP_NET_ADMIN, net.core.rmem_max limits the buffer.
  const int size = kReceiveBuffer;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0) {
    set_option(fd, SOL_SOCKET, SO_RCVBUF, size, "SO_RCVBUF");
  }
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size())) != 0) {
    fail("SO_BINDTODEVICE " + interface);
  }
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
    fail(fmt::format("binding UDP port {}", port));
  }
}

void GroupSocket::connect(std::uint32_t address, std::uint16_t port) {
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_port = htons(port);
  from.sin_addr.s_addr = htonl(address);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
    fail(fmt::format("receiving from {}", agent::format_ipv4(address)));
  }
}

void GroupSocket::change_membership(int option, const char* what, std::uint32_t group) {
  ip_mreqn request{};
  request.imr_multiaddr.s_addr = htonl(group);
  request.imr_ifindex = interface_index_;
  if (setsockopt(fd_.get(), IPPROTO_IP, option, &request, sizeof request) != 0) {
    fail(fmt::format("{} {}", what, agent::format_ipv4(group)));
  }
}

void GroupSocket::join(std::uint32_t group) {
  change_membership(IP_ADD_MEMBERSHIP, "joining group", group);
}

void GroupSocket::leave(std::uint32_t group) {
  change_membership(IP_DROP_MEMBERSHIP, "leaving group", group);
}

void GroupSocket::prepare() {
  for (unsigned i = 0; i < kBatch; ++i) {
    buffers_->vectors[i] = {buffers_->data[i].data(), kMaxBytes};
    msghdr& header = buffers_->headers[i].msg_hdr;
    header = {};
    header.msg_name = &buffers_->sources[i];
    header.msg_namelen = sizeof(sockaddr_in);
    header.msg_iov = &buffers_->vectors[i];
    header.msg_iovlen = 1;
    header.msg_control = buffers_->control[i].data();
    header.msg_controllen = kControlBytes;
  }
}

std::span<const Datagram> GroupSocket::receive() {
  prepare();
  int count;
  // With MSG_TRUNC, msg_len is the datagram's full length even if it exceeds the buffer.
  for (int tries = 0; (count = recvmmsg(fd_.get(), buffers_->headers.data(), kBatch,
                                        MSG_DONTWAIT | MSG_TRUNC, nullptr)) < 0;
       ++tries) {
    if (errno == EAGAIN || errno == EINTR) return {};
    if (!is_of_the_network(errno)) fail("recvmmsg");
    ++network_errors_;
    if (tries == kTries) return {};
  }
  stamps_.refresh();
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) datagrams_[i] = read_datagram(i);
  return std::span(datagrams_).first(static_cast<std::size_t>(count));
}

Datagram GroupSocket::read_datagram(unsigned index) {
  mmsghdr& received = buffers_->headers[index];
  msghdr& header = received.msg_hdr;
  Datagram datagram;
  datagram.length = received.msg_len;
  datagram.message =
      std::span(buffers_->data[index]).first(std::min<std::size_t>(received.msg_len, kMaxBytes));
  datagram.source = ntohl(buffers_->sources[index].sin_addr.s_addr);
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    const auto* const data = CMSG_DATA(item);
    if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, data, sizeof info);
      datagram.destination = ntohl(info.ipi_addr.s_addr);
    } else if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_TOS) {
      datagram.ce = (data[0] & kEcnMask) == kCe;
    } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_TIMESTAMPNS) {
      std::timespec stamp{};
      std::memcpy(&stamp, data, sizeof stamp);
      datagram.arrival = stamps_.to_monotonic(stamp);
    } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_RXQ_OVFL) {
      std::memcpy(&dropped_, data, sizeof dropped_);
    }
  }
  return datagram;
}

}  // namespace tiercast::hosts
