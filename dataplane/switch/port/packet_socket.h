// An AF_PACKET socket. It receives every frame that arrives at an interface, and sends frames
// without a queueing discipline, so that there is no queue behind the emulated one.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "dataplane/switch/port/frame_port.h"

namespace tiercast::vswitch {

// Arrival times are the kernel's time stamps.
class PacketSocket : public FramePort {
 public:
  // Opens the interface in promiscuous mode and switches off its offloads. Throws InterfaceError.
  explicit PacketSocket(const std::string& interface);
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  const std::string& interface() const override { return interface_; }
  int fd() const override { return fd_.get(); }

  std::span<const ReceivedFrame> receive() override;

  bool send(std::span<const std::byte> frame, std::int64_t due_ns) override;
  bool link_up() const override;

  // Totals since the socket was opened: frames lost between the interface and receive() (socket
  // buffer full, frame longer than the MTU, checksum that cannot be completed), and refused frames.
  std::uint64_t kernel_drops() override;
  std::uint64_t send_errors() const override { return send_errors_; }

 private:
  static constexpr std::size_t kTag = 4;  // room in front of a frame for its VLAN tag
  static constexpr std::size_t kControl = 128;

  void open();
  void set_option(int level, int option, const void* value, unsigned size, const char* what);
  void prepare(unsigned slot);
  bool accept(unsigned slot, std::int64_t realtime_offset, std::int64_t now_ns, ReceivedFrame& out);
  void note_unreadable(const char* why, std::size_t length);

  std::string interface_;
  int index_ = 0;
  unsigned mtu_ = 0;
  UniqueFd fd_;
  std::uint64_t kernel_drops_ = 0;
  // Written by the threads that receive and send, read by others.
  std::atomic<std::uint64_t> unreadable_ = 0;
  std::atomic<std::uint64_t> send_errors_ = 0;

  std::size_t slot_size_ = 0;
  std::vector<std::byte> buffer_;
  std::array<mmsghdr, kBatch> messages_{};
  std::array<iovec, kBatch> vectors_{};
  alignas(8) std::array<std::array<std::byte, kControl>, kBatch> control_{};
  std::array<ReceivedFrame, kBatch> frames_{};
};

}  // namespace tiercast::vswitch
