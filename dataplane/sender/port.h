// The one Ethernet port that tiercast-send owns: DPDK's environment, a pool of buffers, one receive
// queue and a transmit queue for each worker.
//
// Any DPDK driver will do: net_af_packet, net_ring, net_null, net_pcap, or a NIC. One thread calls
// everything, unless a method says otherwise.
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
#include "dataplane/sender/frame_template.h"

namespace tiercast::sender {

// What a sender asks of its port.
struct PortNeeds {
  std::uint32_t ip_bytes = 1500;    // of the largest packet that will be sent
  bool poll = false;                // line rate: more buffers, a longer receive ring
  std::uint16_t private_bytes = 0;  // of each received buffer
};

class Port {
 public:
  // `eal_arguments`: what comes before "--" on the command line. Initialises the EAL, which a
  // process can do once. ConfigError: the arguments give no port, more than one, one that cannot be
  // set up, or too small an MTU.
  Port(const std::string& program, const std::vector<std::string>& eal_arguments,
       const PortNeeds& needs);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Descriptor that is readable while received frames wait; -1 if this
  // driver has none and must be polled.
  int receive_descriptor() const { return receive_descriptor_; }

  const std::string& driver() const { return driver_; }  // "net_af_packet"
  const std::string& interface() const {
    return interface_;
  }  // "h0-eth0"; "" if the kernel does not know it
  agent::MacAddress mac() const;

  static constexpr unsigned kBurst = 32;
  // The most bursts received at the end: as many as a ring may hold.
  static constexpr unsigned kLastPolls = 4096 / kBurst;

  // The EAL's cores on which workers run: all but the main one, or the main one if it is alone.
  static std::vector<unsigned> worker_lcores();
  // Any thread, one per queue at a time: hands over `count` buffers and returns how many the device
  // took. The caller keeps the rest.
  unsigned transmit_burst(std::uint16_t queue, rte_mbuf** buffers, unsigned count) const;
  // The receiving thread.
  unsigned receive_burst(std::span<rte_mbuf*, kBurst> frames);
  // Any thread. A buffer of the port's own pool; nullptr: none left.
  rte_mbuf* allocate_buffer() const { return rte_pktmbuf_alloc(pool_); }
  // A pool of `count` buffers, each with room for `frame_bytes`. ConfigError: no memory.
  rte_mempool* make_pool(const std::string& name, unsigned count, std::size_t frame_bytes) const;
  // The work on a packet that the device was set up to do.
  ChecksumOffload checksum_offload() const { return checksum_offload_; }
  bool sends_on_timestamp() const { return sends_on_timestamp_; }
  bool read_clock(std::uint64_t& ticks) const;
  // Frames that the device had no room for since the start, as far as the driver counts them.
  std::uint64_t missed() const;
  // Up, as far as the driver says.
  bool link_up() const;
  // Whether the driver announces a change of the link. If so, a thread of the EAL calls the
  // `changed` that was last given to on_link_change() (nullptr: none).
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
