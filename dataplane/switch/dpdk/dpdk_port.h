// A DPDK device as a port of the switch: one queue in each direction, polled. Works with any
// driver: that of a NIC bound to vfio-pci, net_null, net_ring, net_af_packet, ...
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/switch/port/frame_port.h"

namespace tiercast::vswitch {

// To be called once per process, before any DpdkPort is made: argv[0] and the EAL's arguments.
// Throws InterfaceError.
void init_eal(const std::vector<std::string>& arguments);

// The engine works on the device's buffers themselves, which leave by any of these ports. They are
// the only ports that lend memory.
class DpdkPort : public FramePort, private engine::FrameLender {
 public:
  // device: its name in the EAL, such as "net_null0" or "0000:00:05.0". Throws InterfaceError,
  // which names the devices that exist.
  explicit DpdkPort(const std::string& device);
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  const std::string& interface() const override { return device_; }
  int fd() const override { return -1; }
  // The arrival time is the time of polling. Frames in several buffers are dropped and counted.
  std::span<const ReceivedFrame> receive() override;
  // The frame is kept back until kBatch frames wait, or until flush().
  bool send(std::span<const std::byte> frame, std::int64_t due_ns) override;
  bool send_lent(const engine::LentFrame& frame, bool last, std::int64_t due_ns) override;
  bool keeps_frames() const override { return true; }
  bool flush() override;
  bool link_up() const override;
  std::uint64_t kernel_drops() override;
  std::uint64_t send_errors() const override { return send_errors_; }

  std::uint16_t id() const { return id_; }

 private:
  void configure();
  void release();
  void put(rte_mbuf* mbuf);
  bool lends(const rte_mbuf* mbuf) const;
  void take_back(void* handle) override;

  std::string device_;
  std::uint16_t id_ = 0;
  rte_mempool* pool_ = nullptr;
  std::array<rte_mbuf*, kBatch> kept_{};  // of the last burst: those that are not lent
  std::array<rte_mbuf*, kBatch> waiting_{};
  std::array<ReceivedFrame, kBatch> frames_{};
  unsigned kept_count_ = 0, waiting_count_ = 0;
  unsigned lent_ = 0;  // buffers that the engine has
  std::uint64_t unreadable_ = 0;
  std::uint64_t send_errors_ = 0;
};

}  // namespace tiercast::vswitch
