// An AF_XDP socket: the kernel hands frames over before it makes packets of its own of them, and
// takes a batch of frames with one system call. Needs Linux 5.9, root, and an interface with one
// receive queue. VLAN tags and checksums that the sender leaves to its device are not seen here.
#pragma once

#include <xdp/xsk.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "dataplane/switch/port/frame_port.h"
#include "dataplane/switch/port/xdp_program.h"

namespace tiercast::vswitch {

// Arrival times are those at which the kernel runs the XDP program.
class XdpSocket : public FramePort {
 public:
  // Opens the interface in promiscuous mode and switches off its offloads. Waits up to five seconds
  // for another socket to release it. Throws InterfaceError.
  explicit XdpSocket(const std::string& interface);
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  const std::string& interface() const override { return interface_; }
  int fd() const override;
  std::span<const ReceivedFrame> receive() override;
  // The frame is kept back until kBatch frames wait, or until flush().
  bool send(std::span<const std::byte> frame, std::int64_t due_ns) override;
  bool keeps_frames() const override { return true; }
  bool flush() override;
  bool link_up() const override;
  // Lost because the ring was full.
  std::uint64_t kernel_drops() override;
  std::uint64_t send_errors() const override { return send_errors_; }

 private:
  // The memory that process and kernel share: chunks of one size, one frame in each.
  struct Memory {
    explicit Memory(std::size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    std::byte* start;
    std::size_t size;
  };
  template <auto Delete>
  struct Deleter {
    template <typename T>
    void operator()(T* one) const {
      (void)Delete(one);
    }
  };

  void create(const std::string& interface);
  // Returns 0, or a negative error number. Throws InterfaceError if the memory cannot be shared.
  int bind(const std::string& interface);
  void give_back();
  void reclaim();
  std::uint32_t left_to_send() const;
  ReceivedFrame read(const xdp_desc& descriptor, std::int64_t now_ns);

  std::string interface_;
  std::uint32_t chunk_ = 0;  // bytes
  std::unique_ptr<Memory> memory_;
  xsk_ring_prod fill_{}, transmit_{};
  xsk_ring_cons completed_{}, receive_{};
  std::unique_ptr<xsk_umem, Deleter<xsk_umem__delete>> umem_;
  std::unique_ptr<xsk_socket, Deleter<xsk_socket__delete>> socket_;
  std::optional<XdpProgram> program_;
  UniqueFd promiscuous_;

  std::array<ReceivedFrame, kBatch> frames_{};
  std::array<std::uint64_t, kBatch> taken_{};  // chunks of frames_
  std::uint32_t taken_count_ = 0;
  std::vector<std::uint64_t> free_;             // chunks to send from
  std::uint32_t kept_ = 0;                      // frames since the last flush
  std::atomic<std::uint64_t> send_errors_ = 0;  // written by a thread that sends, read by others
};

}  // namespace tiercast::vswitch
