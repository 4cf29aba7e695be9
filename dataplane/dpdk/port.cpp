#include "dataplane/dpdk/port.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/interface.h"
#include "base/thread_sanitizer.h"
#include "dataplane/dpdk/packet_socket.h"
#include "dataplane/dpdk/vlan.h"
#include "protocols/base/units.h"

namespace tiercast::dpdk {
namespace {

constexpr unsigned kCache = 64;
// Buffers of a thread that are in no ring: bursts in its hands, and its cache, which keeps up to
// one and a half times kCache.
constexpr unsigned kBuffersOfThread = 256;
constexpr unsigned kWorkerCache = 256;
constexpr std::uint16_t kDescriptors = 512;
// Enough for a million frames a second during two milliseconds in which the receiving thread does
// not run.
constexpr std::uint16_t kReceiveDescriptors = 2048;
// Some NICs fill buffers in whole steps of this.
constexpr std::size_t kRoomStep = 1024;
constexpr std::size_t kUsualRoom = 2 * kRoomStep;
// Of a frame around its IP packet, as the ethdev library counts.
constexpr std::uint32_t kFrameOverhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

void check(int result, std::string_view what, std::string_view driver) {
  if (result >= 0) return;
  throw ConfigError(fmt::format("device {}: {} failed: {}", driver, what, std::strerror(-result)));
}

// The largest IP packet that the driver can be configured for.
std::uint32_t largest_packet(const rte_eth_dev_info& info) {
  const bool tells_both = info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu;
  return tells_both ? info.max_mtu
                    : std::min<std::uint32_t>(info.max_mtu, info.max_rx_pktlen - kFrameOverhead);
}

// Without the headroom: of buffers for frames with a VLAN tag, with the FCS that some NICs leave
// there.
std::size_t room_for(std::uint32_t ip_bytes) {
  const std::size_t frame = ip_bytes + kFrameOverhead + kVlanBytes;
  return std::max(kUsualRoom, (frame + kRoomStep - 1) / kRoomStep * kRoomStep);
}

}  // namespace

Port::Port(std::uint16_t id, const PortNeeds& needs) : id_(id) { configure(needs); }

void Port::configure(const PortNeeds& needs) {
  const std::uint32_t ip_bytes = needs.ip_bytes;
  rte_eth_dev_info info{};
  check(rte_eth_dev_info_get(id_, &info), "reading its properties", "0");
  driver_ = info.driver_name;
  if (info.if_index != 0) interface_ = agent::interface_name(info.if_index);

  std::size_t room = room_for(ip_bytes);
  // net_af_packet announces frames of 1,518 bytes, but passes on what its interface does. An MTU
  // that it was given would become the interface's, which is the user's.
  const bool is_packet_socket = driver_ == "net_af_packet";
  std::uint32_t most = is_packet_socket ? UINT16_MAX : largest_packet(info);
  if (!interface_.empty()) most = std::min(most, agent::interface_mtu(interface_));
  if (ip_bytes > most) {
    throw ConfigError(fmt::format("--packet-size: {} is above the MTU of {}; valid: up to {}",
                                  ip_bytes, interface_.empty() ? driver_ : interface_, most));
  }
  if (is_packet_socket) {
    const PacketRing ring(*info.device);
    ring.check(ip_bytes);
    room = std::max(room, ring.received_bytes());
  }

  rte_eth_conf configuration{};
  const std::uint16_t queues = needs.queues;
  if (queues > info.max_tx_queues) {
    throw ConfigError(fmt::format("{} workers, by -l, need as many transmit queues; {} has {}",
                                  queues, driver_, info.max_tx_queues));
  }
  configuration.txmode.offloads =
      info.tx_offload_capa & (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
                              RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP);
  checksum_offload_ = {(configuration.txmode.offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0,
                       (configuration.txmode.offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0};
  sends_on_timestamp_ = (configuration.txmode.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0;
  const std::uint64_t stamping =
      needs.receive_stamps ? info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP : 0;
  configuration.rxmode.offloads = stamping;
  if (ip_bytes > RTE_ETHER_MTU && !is_packet_socket) configuration.rxmode.mtu = ip_bytes;
  link_interrupt_ = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
  configuration.intr_conf.lsc = link_interrupt_ ? 1 : 0;
  check(rte_eth_dev_configure(id_, 1, queues, &configuration), "configuring it", driver_);
  std::uint16_t rx_descriptors = needs.many_frames ? kReceiveDescriptors : kDescriptors;
  std::uint16_t tx_descriptors = kDescriptors;
  check(rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors, &tx_descriptors),
        "setting its ring sizes", driver_);
  // Received frames that wait in the program must not take the buffers of what the device receives
  // and of messages, which leave by all its queues.
  const unsigned threads = queues + 1u;
  const unsigned buffers = rx_descriptors + needs.held_frames + queues * unsigned{tx_descriptors} +
                           threads * kBuffersOfThread;
  pool_ = rte_pktmbuf_pool_create(
      fmt::format("{}-{}", needs.name, id_).c_str(), buffers, kCache, needs.private_bytes,
      static_cast<std::uint16_t>(RTE_PKTMBUF_HEADROOM + room), rte_eth_dev_socket_id(id_));
  if (pool_ == nullptr) {
    throw ConfigError(fmt::format("no memory for {} packet buffers: {} (-m gives the EAL more MB)",
                                  buffers, rte_strerror(rte_errno)));
  }
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(id_));
  check(rte_eth_rx_queue_setup(id_, 0, rx_descriptors, socket, nullptr, pool_),
        "setting up its receive queue", driver_);
  for (std::uint16_t queue = 0; queue < queues; ++queue) {
    check(rte_eth_tx_queue_setup(id_, queue, tx_descriptors, socket, nullptr),
          "setting up a transmit queue", driver_);
  }
  if (stamping != 0 && rte_mbuf_dyn_rx_timestamp_register(&stamp_offset_, &stamp_flag_) != 0) {
    stamp_flag_ = 0;
  }
  check(rte_eth_dev_start(id_), "starting it", driver_);
  // Drivers without a filter refuse this, and do not need it.
  if (needs.all_groups && rte_eth_allmulticast_enable(id_) != 0) rte_eth_promiscuous_enable(id_);

  if (is_packet_socket) {
    receive_descriptor_ = find_packet_socket(info.if_index);
    ignore_outgoing(receive_descriptor_);
    interface_state_.emplace(interface_);
  }
}

void Port::receive_for(const agent::MacAddress& mac) const {
  if (mac == this->mac()) return;
  if (receive_descriptor_ >= 0) {
    dpdk::receive_for(receive_descriptor_, if_nametoindex(interface_.c_str()), mac);
    return;
  }
  rte_ether_addr address{};
  std::memcpy(address.addr_bytes, mac.data(), mac.size());
  // A driver that cannot, and has no filter, refuses both.
  if (rte_eth_dev_mac_addr_add(id_, &address, 0) != 0) rte_eth_promiscuous_enable(id_);
}

Port::~Port() {
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
}

std::string Port::device() const {
  char name[RTE_ETH_NAME_MAX_LEN] = "";
  rte_eth_dev_get_name_by_port(id_, name);
  return name;
}

agent::MacAddress Port::mac() const {
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  agent::MacAddress mac{};
  std::memcpy(mac.data(), address.addr_bytes, mac.size());
  return mac;
}

unsigned Port::transmit_burst(std::uint16_t queue, rte_mbuf** buffers, unsigned count) const {
  // A device of rings hands them to another thread of this process.
  for (unsigned i = 0; i < count; ++i) hand_over(buffers[i]);
  return rte_eth_tx_burst(id_, queue, buffers, static_cast<std::uint16_t>(count));
}

rte_mempool* Port::make_pool(const std::string& name, unsigned count,
                             std::size_t frame_bytes) const {
  const std::size_t room = RTE_PKTMBUF_HEADROOM + std::max(kUsualRoom, frame_bytes);
  rte_mempool* const pool =
      rte_pktmbuf_pool_create(name.c_str(), count, kWorkerCache, 0,
                              static_cast<std::uint16_t>(room), rte_eth_dev_socket_id(id_));
  if (pool == nullptr) {
    throw ConfigError(
        fmt::format("no memory for {} packet buffers of {} bytes: {} (-m gives the EAL more MB)",
                    count, room, rte_strerror(rte_errno)));
  }
  return pool;
}

bool Port::read_clock(std::uint64_t& ticks) const { return rte_eth_read_clock(id_, &ticks) == 0; }

std::uint64_t Port::missed() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(id_, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

bool Port::link_up() const {
  if (interface_state_) return interface_state_->running();
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
}

void Port::on_link_change(std::function<void()> changed) {
  // The EAL waits for a call in progress before it removes the callback.
  const rte_eth_dev_cb_fn call = [](std::uint16_t, rte_eth_event_type, void* self, void*) {
    take_over(self);
    static_cast<Port*>(self)->link_changed_();
    hand_over(self);
    return 0;
  };
  if (link_changed_) {
    while (rte_eth_dev_callback_unregister(id_, RTE_ETH_EVENT_INTR_LSC, call, this) == -EAGAIN) {
      std::this_thread::yield();
    }
    take_over(this);
  }
  link_changed_ = std::move(changed);
  hand_over(this);
  if (link_changed_) rte_eth_dev_callback_register(id_, RTE_ETH_EVENT_INTR_LSC, call, this);
}

unsigned Port::receive_burst(std::span<rte_mbuf*, kBurst> frames) {
  const unsigned count = rte_eth_rx_burst(id_, 0, frames.data(), kBurst);
  for (unsigned i = 0; i < count; ++i) take_over(frames[i]);
  return count;
}

}  // namespace tiercast::dpdk
