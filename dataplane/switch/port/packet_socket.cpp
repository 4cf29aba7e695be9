#include "dataplane/switch/port/packet_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dataplane/switch/clock.h"
#include "dataplane/switch/port/checksum.h"
#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

// Bytes. Room for some 14000 frames of 1 kB while the process cannot run.
constexpr int kReceiveBuffer = 32 << 20;

}  // namespace

PacketSocket::PacketSocket(const std::string& interface) : interface_(interface) {
  const Interface found = find_interface(interface);
  index_ = found.index;
  mtu_ = found.mtu;
  for (const std::string& feature : disable_offloads(interface))
    spdlog::warn("{}: offload {} cannot be switched off", interface, feature);
  open();
  slot_size_ = kTag + mtu_ + ETH_HLEN + kTag;
  buffer_.resize(slot_size_ * kBatch);
  for (unsigned slot = 0; slot < kBatch; ++slot) prepare(slot);
}

void PacketSocket::set_option(int level, int option, const void* value, unsigned size,
                              const char* what) {
  if (::setsockopt(fd_.get(), level, option, value, size) != 0)
    throw InterfaceError(fmt::format("interface {}: {}: {}", interface_, what, strerror(errno)));
}

void PacketSocket::open() {
  // Protocol 0 until bind(), so that no frames from other interfaces get in.
  fd_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd_.get() < 0)
    throw InterfaceError(fmt::format("interface {}: packet socket: {}{}", interface_,
                                     strerror(errno),
                                     errno == EPERM ? " (root or CAP_NET_RAW is needed)" : ""));
  const int on = 1;
  set_option(SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on, "PACKET_IGNORE_OUTGOING");
  set_option(SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on, "PACKET_QDISC_BYPASS");
  set_option(SOL_PACKET, PACKET_AUXDATA, &on, sizeof on, "PACKET_AUXDATA");
  set_option(SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on, "SO_TIMESTAMPNS");
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer) !=
      0)
    set_option(SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer, "SO_RCVBUF");

  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = index_;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw InterfaceError(fmt::format("interface {}: bind: {}", interface_, strerror(errno)));

  packet_mreq membership{};
  membership.mr_ifindex = index_;
  membership.mr_type = PACKET_MR_PROMISC;
  set_option(SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership, "promiscuous mode");
}

// Points message `slot` at its buffers, because the kernel overwrites the lengths at each receive.
void PacketSocket::prepare(unsigned slot) {
  vectors_[slot] = {buffer_.data() + slot * slot_size_ + kTag, slot_size_ - kTag};
  msghdr& header = messages_[slot].msg_hdr;
  header = {};
  header.msg_iov = &vectors_[slot];
  header.msg_iovlen = 1;
  header.msg_control = control_[slot].data();
  header.msg_controllen = kControl;
}

std::span<const ReceivedFrame> PacketSocket::receive() {
  const int count =
      ::recvmmsg(fd_.get(), messages_.data(), kBatch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR)
      spdlog::warn("{}: receive: {}", interface_, strerror(errno));
    return {};
  }
  const std::int64_t now = monotonic_ns();
  const std::int64_t realtime_offset = realtime_ns() - now;
  unsigned accepted = 0;
  for (unsigned slot = 0; slot < static_cast<unsigned>(count); ++slot) {
    if (accept(slot, realtime_offset, now, frames_[accepted])) ++accepted;
    prepare(slot);
  }
  return {frames_.data(), accepted};
}

bool PacketSocket::accept(unsigned slot, std::int64_t realtime_offset, std::int64_t now_ns,
                          ReceivedFrame& out) {
  msghdr& header = messages_[slot].msg_hdr;
  std::size_t length = messages_[slot].msg_len;
  if (header.msg_flags & MSG_TRUNC) {
    note_unreadable("longer than the interface's MTU; switch tso and gso off where it was sent",
                    length);
    return false;
  }
  tpacket_auxdata aux{};
  out.arrival_ns = now_ns;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level == SOL_PACKET && item->cmsg_type == PACKET_AUXDATA) {
      std::memcpy(&aux, CMSG_DATA(item), sizeof aux);
    } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_TIMESTAMPNS) {
      timespec stamp;
      std::memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
      out.arrival_ns = vswitch::arrival_ns(
          stamp.tv_sec * 1'000'000'000LL + stamp.tv_nsec - realtime_offset, now_ns);
    }
  }
  std::byte* start = buffer_.data() + slot * slot_size_ + kTag;
  if (aux.tp_status & TP_STATUS_VLAN_VALID) {
    // The kernel took the tag out of the frame. Put it back behind the addresses.
    const std::uint16_t tpid = htons(
        aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : std::uint16_t{ETH_P_8021Q});
    const std::uint16_t tci = htons(aux.tp_vlan_tci);
    start -= kTag;
    std::memmove(start, start + kTag, 2 * ETH_ALEN);
    std::memcpy(start + 2 * ETH_ALEN, &tpid, sizeof tpid);
    std::memcpy(start + 2 * ETH_ALEN + 2, &tci, sizeof tci);
    length += kTag;
  }
  if ((aux.tp_status & TP_STATUS_CSUMNOTREADY) && !complete_checksum({start, length})) {
    note_unreadable("its checksum is left to a device; switch tx checksums off where it was sent",
                    length);
    return false;
  }
  out.bytes = {start, length};
  return true;
}

void PacketSocket::note_unreadable(const char* why, std::size_t length) {
  if (unreadable_++ == 0)
    spdlog::warn("{}: dropped a frame of {} bytes (counted from here on): {}", interface_, length,
                 why);
}

bool PacketSocket::send(std::span<const std::byte> frame, std::int64_t /*due_ns*/) {
  if (::send(fd_.get(), frame.data(), frame.size(), MSG_DONTWAIT) >= 0) return true;
  if (send_errors_++ == 0)
    spdlog::warn("{}: the kernel refused a frame of {} bytes (counted from here on): {}",
                 interface_, frame.size(), strerror(errno));
  return false;
}

bool PacketSocket::link_up() const { return is_running(interface_); }

std::uint64_t PacketSocket::kernel_drops() {
  tpacket_stats statistics{};  // reading resets the kernel's count
  socklen_t size = sizeof statistics;
  if (::getsockopt(fd_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size) == 0)
    kernel_drops_ += statistics.tp_drops;
  return kernel_drops_ + unreadable_;
}

}  // namespace tiercast::vswitch
