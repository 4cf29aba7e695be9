#include "dataplane/switch/port/xdp_socket.h"

#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "dataplane/switch/clock.h"
#include "dataplane/switch/port/checksum.h"
#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint32_t kReceiveChunks = 8192;  // frames while the process cannot run
constexpr std::uint32_t kSendChunks = 4096;     // frames that the other side has not consumed
constexpr std::uint32_t kHeadroom = 256;        // bytes that the kernel keeps in front of a frame
constexpr std::uint32_t kFrameHeader = ETH_HLEN + 4;  // with a VLAN tag
constexpr std::uint32_t kSmallChunk = 2048, kLargeChunk = 4096;
constexpr int kSendBuffer = 64 << 20;  // bytes
// The kernel releases an interface some time after the socket of a switch that has ended is closed:
// in a work queue, and under the lock of all network devices.
constexpr std::chrono::seconds kReleaseTime{5};
constexpr std::chrono::milliseconds kRetryPause{20};

void require(bool holds, const std::string& interface, std::string_view what, int error) {
  if (holds) return;
  throw InterfaceError(fmt::format(
      "interface {}: {}: {}{}", interface, what, strerror(error),
      error == EPERM ? " (root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, is needed)" : ""));
}

// A device hands an AF_XDP socket only what its own address filter lets through, so a packet socket
// without a protocol, which gets no frame, keeps the filter open.
UniqueFd open_filter(const std::string& interface, int index) {
  UniqueFd opened(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  packet_mreq membership{};
  membership.mr_ifindex = index;
  membership.mr_type = PACKET_MR_PROMISC;
  require(opened.get() >= 0 && ::setsockopt(opened.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP,
                                            &membership, sizeof membership) == 0,
          interface, "promiscuous mode", errno);
  return opened;
}

}  // namespace

XdpSocket::Memory::Memory(std::size_t bytes)
    : start(static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))),
      size(bytes) {
  if (start == MAP_FAILED) throw std::bad_alloc();
}

XdpSocket::Memory::~Memory() { ::munmap(start, size); }

XdpSocket::XdpSocket(const std::string& interface) : interface_(interface) {
  const Interface found = find_interface(interface);
  if (const unsigned queues = receive_queues(interface); queues > 1)
    throw InterfaceError(
        fmt::format("interface {} has {} receive queues; an XDP port needs one: ethtool -L {} "
                    "combined 1 (or rx 1)",
                    interface, queues, interface));
  const std::uint32_t longest = found.mtu + kFrameHeader + kHeadroom;
  chunk_ = longest <= kSmallChunk ? kSmallChunk : kLargeChunk;
  if (longest > kLargeChunk)
    throw InterfaceError(fmt::format("interface {}: an MTU of {} bytes; an XDP port takes up to {}",
                                     interface, found.mtu, kLargeChunk - kFrameHeader - kHeadroom));
  for (const std::string& feature : disable_offloads(interface))
    spdlog::warn("{}: offload {} cannot be switched off", interface, feature);
  ::libbpf_set_print(nullptr);  // errors are reported here
  create(interface);
  promiscuous_ = open_filter(interface, found.index);
  program_.emplace(interface, found.index, fd());
}

void XdpSocket::create(const std::string& interface) {
  memory_ = std::make_unique<Memory>(std::size_t{kReceiveChunks + kSendChunks} * chunk_);
  const auto gives_up = std::chrono::steady_clock::now() + kReleaseTime;
  int status = bind(interface);
  if (status == -EBUSY) spdlog::warn("{}: waiting for another XDP socket to release it", interface);
  while (status == -EBUSY && std::chrono::steady_clock::now() < gives_up) {
    std::this_thread::sleep_for(kRetryPause);
    status = bind(interface);
  }
  require(status == 0, interface,
          status == -EBUSY ? "XDP socket (another one has the interface)" : "XDP socket", -status);
  if (::setsockopt(fd(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer) != 0)
    (void)::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);

  std::uint32_t at = 0;
  ::xsk_ring_prod__reserve(&fill_, kReceiveChunks, &at);
  for (std::uint32_t i = 0; i < kReceiveChunks; ++i)
    *::xsk_ring_prod__fill_addr(&fill_, at + i) = std::uint64_t{i} * chunk_;
  ::xsk_ring_prod__submit(&fill_, kReceiveChunks);
  free_.reserve(kSendChunks);
  for (std::uint32_t i = kReceiveChunks + kSendChunks; i-- > kReceiveChunks;)
    free_.push_back(std::uint64_t{i} * chunk_);
}

int XdpSocket::bind(const std::string& interface) {
  umem_.reset();  // the rings of a socket that could not be bound cannot be set up again
  const xsk_umem_config layout{kReceiveChunks, kSendChunks, chunk_, 0, 0};
  xsk_umem* umem = nullptr;
  int status =
      ::xsk_umem__create(&umem, memory_->start, memory_->size, &fill_, &completed_, &layout);
  require(status == 0, interface, "memory of the XDP socket", -status);
  umem_.reset(umem);

  xsk_socket_config config{};
  config.rx_size = kReceiveChunks;
  config.tx_size = kSendChunks;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_USE_NEED_WAKEUP;
  xsk_socket* socket = nullptr;
  status =
      ::xsk_socket__create(&socket, interface.c_str(), 0, umem, &receive_, &transmit_, &config);
  socket_.reset(socket);
  return status;
}

int XdpSocket::fd() const { return ::xsk_socket__fd(socket_.get()); }

// The frames of the last receive() have been read.
void XdpSocket::give_back() {
  std::uint32_t at = 0;
  ::xsk_ring_prod__reserve(&fill_, taken_count_, &at);  // the ring has room for every chunk
  for (std::uint32_t i = 0; i < taken_count_; ++i)
    *::xsk_ring_prod__fill_addr(&fill_, at + i) = taken_[i];
  ::xsk_ring_prod__submit(&fill_, taken_count_);
  taken_count_ = 0;
}

std::span<const ReceivedFrame> XdpSocket::receive() {
  if (taken_count_ > 0) give_back();
  std::uint32_t at = 0;
  taken_count_ = ::xsk_ring_cons__peek(&receive_, kBatch, &at);
  if (taken_count_ == 0) return {};
  const std::int64_t now_ns = monotonic_ns();
  for (std::uint32_t i = 0; i < taken_count_; ++i) {
    const xdp_desc& descriptor = *::xsk_ring_cons__rx_desc(&receive_, at + i);
    taken_[i] = descriptor.addr - descriptor.addr % chunk_;
    frames_[i] = read(descriptor, now_ns);
  }
  ::xsk_ring_cons__release(&receive_, taken_count_);
  return {frames_.data(), taken_count_};
}

ReceivedFrame XdpSocket::read(const xdp_desc& descriptor, std::int64_t now_ns) {
  std::byte* const start = memory_->start + descriptor.addr;
  std::int64_t stamp = 0;
  std::memcpy(&stamp, start - kXdpStampBytes, sizeof stamp);
  std::memset(start - kXdpStampBytes, 0, sizeof stamp);  // so that no stamp is read twice
  const std::span<std::byte> frame(start, descriptor.len);
  if (checksum_is_left(frame)) complete_checksum(frame);
  return {frame, arrival_ns(stamp, now_ns)};
}

// Takes back what the other side has consumed.
void XdpSocket::reclaim() {
  std::uint32_t at = 0;
  const std::uint32_t count = ::xsk_ring_cons__peek(&completed_, kSendChunks, &at);
  for (std::uint32_t i = 0; i < count; ++i)
    free_.push_back(*::xsk_ring_cons__comp_addr(&completed_, at + i));
  ::xsk_ring_cons__release(&completed_, count);
}

bool XdpSocket::send(std::span<const std::byte> frame, std::int64_t /*due_ns*/) {
  if (free_.empty()) reclaim();
  if (free_.empty()) {
    (void)flush();
    reclaim();
  }
  if (free_.empty() || frame.size() > chunk_) {
    if (send_errors_++ == 0)
      spdlog::warn("{}: no room for a frame of {} bytes (counted from here on)", interface_,
                   frame.size());
    return false;
  }
  const std::uint64_t chunk = free_.back();
  free_.pop_back();
  std::memcpy(memory_->start + chunk, frame.data(), frame.size());
  std::uint32_t at = 0;
  ::xsk_ring_prod__reserve(&transmit_, 1, &at);  // the ring has room for every chunk
  *::xsk_ring_prod__tx_desc(&transmit_, at) = {chunk, static_cast<std::uint32_t>(frame.size()), 0};
  ::xsk_ring_prod__submit(&transmit_, 1);
  if (++kept_ >= kBatch) (void)flush();
  return true;
}

std::uint32_t XdpSocket::left_to_send() const {
  return transmit_.cached_prod - __atomic_load_n(transmit_.consumer, __ATOMIC_ACQUIRE);
}

bool XdpSocket::flush() {
  kept_ = 0;
  std::uint32_t left = left_to_send();
  while (left > 0) {
    if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return true;
    const int error = errno;
    const std::uint32_t before = std::exchange(left, left_to_send());
    // The kernel takes a few frames at a time (EAGAIN), and stops behind one that it had to drop
    // (EBUSY).
    if (left < before) {
      if (error == EBUSY) ++send_errors_;
      continue;
    }
    return error != EAGAIN && error != EBUSY && error != ENOBUFS && error != EINTR;
  }
  return true;
}

bool XdpSocket::link_up() const { return is_running(interface_); }

std::uint64_t XdpSocket::kernel_drops() {
  xdp_statistics statistics{};
  socklen_t size = sizeof statistics;
  if (::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &statistics, &size) != 0) return 0;
  return statistics.rx_dropped + statistics.rx_ring_full;
}

}  // namespace tiercast::vswitch
