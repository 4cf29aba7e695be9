// The one Ethernet port that tiercast-send owns: DPDK's environment, a pool
// of buffers, one queue each way.
//
// Any DPDK driver: net_af_packet, net_ring, net_null, net_pcap, or a
// NIC. One thread calls everything.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/interface.h"

namespace tiercast::sender {

class Port {
 public:
  // `eal_arguments`: what stands before "--" on the command line. Initialises the EAL, which a
  // process can do once. `ip_bytes`: the largest IP packet that will be sent. ConfigError: the
  // arguments give no port, more than one, one that cannot be set up, or too small an MTU.
  Port(const std::string& program, const std::vector<std::string>& eal_arguments,
       std::uint32_t ip_bytes);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // A buffer to write a frame into; owned by the port until transmit() or discard().
  struct Frame {
    rte_mbuf* mbuf;
    std::span<std::byte> bytes;
  };
  // Nothing when the pool is exhausted (the device holds all buffers).
  std::optional<Frame> allocate(std::size_t bytes);
  // Hands the frame to the device; false if the device refused or lost
  // it. Either way the frame is gone.
  bool transmit(const Frame& frame);
  void discard(const Frame& frame) { rte_pktmbuf_free(frame.mbuf); }

  // Calls handle(std::span<std::byte>) for at most kBurst received frames; returns how many. Frames
  // made of several buffers (larger than kDataRoom) are skipped.
  template <typename Handle>
  unsigned receive(Handle&& handle);

  // Descriptor that is readable while received frames wait; -1 if this
  // driver has none and must be polled.
  int receive_descriptor() const { return receive_descriptor_; }

  const std::string& driver() const { return driver_; }  // "net_af_packet"
  const std::string& interface() const {
    return interface_;
  }  // "h0-eth0"; "" if the kernel does not know it
  agent::MacAddress mac() const;

  static constexpr unsigned kBurst = 32;

 private:
  void configure(const std::string& eal_arguments, std::uint32_t ip_bytes);
  unsigned receive_burst(std::span<rte_mbuf*, kBurst> frames);
  std::uint64_t device_errors() const;

  std::uint16_t id_ = 0;
  rte_mempool* pool_ = nullptr;
  std::string driver_;
  std::string interface_;
  int receive_descriptor_ = -1;
  std::optional<agent::InterfaceState> interface_state_;  // net_af_packet only
  std::uint64_t errors_seen_ = 0;
};

template <typename Handle>
unsigned Port::receive(Handle&& handle) {
  rte_mbuf* frames[kBurst];
  const unsigned received = receive_burst(frames);
  for (unsigned i = 0; i < received; ++i) {
    if (frames[i]->nb_segs == 1) {
      handle(std::span(rte_pktmbuf_mtod(frames[i], std::byte*), rte_pktmbuf_data_len(frames[i])));
    }
    rte_pktmbuf_free(frames[i]);
  }
  return received;
}

}  // namespace tiercast::sender
