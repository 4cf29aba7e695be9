// An Ethernet port of DPDK: a pool of buffers, one receive queue, and a transmit queue for each
// thread that sends.
//
// Works with any DPDK driver: net_af_packet, net_ring, net_null, net_pcap, or that of a NIC. One
// thread calls everything, unless a method says otherwise.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "agent/address.h"
#include "agent/interface.h"
#include "dataplane/dpdk/checksum_offload.h"

namespace tiercast::dpdk {

// What a program needs from its port.
struct PortNeeds {
  std::string name = "tiercast";    // of its pool of buffers
  std::uint32_t ip_bytes = 0;       // size of the largest packet that must pass; those of up to
                                    // 1,500 bytes do where the MTU allows them
  std::uint16_t queues = 1;         // for transmission
  bool many_frames = false;         // at line rate, or handed to other threads: a longer receive
                                    // ring
  unsigned held_frames = 0;         // received ones that may wait in the program at a time
  std::uint16_t private_bytes = 0;  // in each received buffer
  bool all_groups = false;          // receives every multicast frame: the device filters none
  bool receive_stamps = false;      // the device's own times of arrival, if it has a clock
};

class Port {
 public:
  // `id`: a device of Eal. ConfigError: it cannot be set up, or its MTU, or a packet socket's
  // frames, are too small.
  Port(std::uint16_t id, const PortNeeds& needs);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // A descriptor that is readable while received frames wait; -1 if this driver has none and must
  // be polled.
  int receive_descriptor() const { return receive_descriptor_; }

  const std::string& driver() const { return driver_; }  // "net_af_packet"
  const std::string& interface() const {
    return interface_;
  }  // "h0-eth0"; "" if the kernel does not know the port
  agent::MacAddress mac() const;
  // Frames to this address are received as those to mac() are.
  void receive_for(const agent::MacAddress& mac) const;

  static constexpr unsigned kBurst = 32;
  // The most bursts to receive at the end; a ring may hold this much.
  static constexpr unsigned kLastPolls = 4096 / kBurst;

  // Any thread, but one at a time per queue. Hands over `count` buffers and returns how many the
  // device took. The caller keeps the rest.
  unsigned transmit_burst(std::uint16_t queue, rte_mbuf** buffers, unsigned count) const;
  // For the receiving thread.
  unsigned receive_burst(std::span<rte_mbuf*, kBurst> frames);
  // Any thread. Returns a buffer of the port's own pool; nullptr if none is left, which cannot be
  // while the program holds no more received frames than it needed, and sends what it takes.
  rte_mbuf* allocate_buffer() const { return rte_pktmbuf_alloc(pool_); }
  // Makes a pool of `count` buffers, each with room for `frame_bytes`. ConfigError: no memory.
  rte_mempool* make_pool(const std::string& name, unsigned count, std::size_t frame_bytes) const;
  // The work that the device was set up to do on packets.
  ChecksumOffload checksum_offload() const { return checksum_offload_; }
  bool sends_on_timestamp() const { return sends_on_timestamp_; }
  bool read_clock(std::uint64_t& ticks) const;
  // When the device received the frame, on its own clock (read_clock()). False if it does not say.
  bool stamp(const rte_mbuf& frame, std::uint64_t& ticks) const {
    if ((frame.ol_flags & stamp_flag_) == 0) return false;
    ticks = *RTE_MBUF_DYNFIELD(&frame, stamp_offset_, const std::uint64_t*);
    return true;
  }
  bool stamps() const { return stamp_flag_ != 0; }
  // The name that DPDK gives the device, such as "net_af_packet0".
  std::string device() const;
  // Frames since the start that the device had no room for, as far as the driver counts them.
  std::uint64_t missed() const;
  // Whether the link is up, as far as the driver knows.
  bool link_up() const;
  // Whether the driver announces changes of the link. If so, a thread of the EAL calls the latest
  // `changed` of on_link_change() (nullptr: none).
  bool interrupts_at_link_change() const { return link_interrupt_; }
  void on_link_change(std::function<void()> changed);

 private:
  void configure(const PortNeeds& needs);

  const std::uint16_t id_;
  rte_mempool* pool_ = nullptr;
  std::string driver_;
  std::string interface_;
  int receive_descriptor_ = -1;
  ChecksumOffload checksum_offload_;
  bool sends_on_timestamp_ = false;
  std::uint64_t stamp_flag_ = 0;
  int stamp_offset_ = 0;
  bool link_interrupt_ = false;
  std::function<void()> link_changed_;
  std::optional<agent::InterfaceState> interface_state_;  // net_af_packet only
};

}  // namespace tiercast::dpdk
