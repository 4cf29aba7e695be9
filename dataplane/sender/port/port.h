// The only Ethernet port of tiercast-send: DPDK's environment, a pool of buffers, one receive
// queue, and a transmit queue for each worker.
//
// Works with any DPDK driver: net_af_packet, net_ring, net_null, net_pcap, or that of a NIC. One
// thread calls everything, unless a method says otherwise.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/interface.h"
#include "dataplane/sender/frames/frame_template.h"

namespace tiercast::sender {

// What a sender needs from its port.
struct PortNeeds {
  std::uint32_t ip_bytes = 1500;    // size of the largest packet to be sent
  bool poll = false;                // for line rate: more buffers, and a longer receive ring
  std::uint16_t private_bytes = 0;  // in each received buffer
};

class Port {
 public:
  // `eal_arguments`: the part before "--" on the command line. Initialises the EAL, which a process
  // can do only once. ConfigError: the arguments give no port, or more than one; the port cannot be
  // set up; or its MTU is too small.
  Port(const std::string& program, const std::vector<std::string>& eal_arguments,
       const PortNeeds& needs);
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

  static constexpr unsigned kBurst = 32;
  // The most bursts to receive at the end; a ring may hold this much.
  static constexpr unsigned kLastPolls = 4096 / kBurst;

  // The EAL's cores that run workers: all but the main one, or the main one if it is the only one.
  static std::vector<unsigned> worker_lcores();
  // Any thread, but one at a time per queue. Hands over `count` buffers and returns how many the
  // device took. The caller keeps the rest.
  unsigned transmit_burst(std::uint16_t queue, rte_mbuf** buffers, unsigned count) const;
  // For the receiving thread.
  unsigned receive_burst(std::span<rte_mbuf*, kBurst> frames);
  // Any thread. Returns a buffer of the port's own pool; nullptr if none is left.
  rte_mbuf* allocate_buffer() const { return rte_pktmbuf_alloc(pool_); }
  // Makes a pool of `count` buffers, each with room for `frame_bytes`. ConfigError: no memory.
  rte_mempool* make_pool(const std::string& name, unsigned count, std::size_t frame_bytes) const;
  // The work that the device was set up to do on packets.
  ChecksumOffload checksum_offload() const { return checksum_offload_; }
  bool sends_on_timestamp() const { return sends_on_timestamp_; }
  bool read_clock(std::uint64_t& ticks) const;
  // Frames since the start that the device had no room for, as far as the driver counts them.
  std::uint64_t missed() const;
  // Whether the link is up, as far as the driver knows.
  bool link_up() const;
  // Whether the driver announces changes of the link. If so, a thread of the EAL calls the latest
  // `changed` of on_link_change() (nullptr: none).
  bool interrupts_at_link_change() const { return link_interrupt_; }
  void on_link_change(std::function<void()> changed);

 private:
  void configure(const std::string& eal_arguments, const PortNeeds& needs);

  std::uint16_t id_ = 0;
  rte_mempool* pool_ = nullptr;
  std::string driver_;
  std::string interface_;
  int receive_descriptor_ = -1;
  ChecksumOffload checksum_offload_;
  bool sends_on_timestamp_ = false;
  bool link_interrupt_ = false;
  std::function<void()> link_changed_;
  std::optional<agent::InterfaceState> interface_state_;  // net_af_packet only
};

}  // namespace tiercast::sender
