#include "dataplane/switch/dpdk/dpdk_port.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include <cstring>

#include "dataplane/switch/clock.h"
#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

constexpr unsigned kBuffers = 4095;  // 2^n - 1 uses a mempool's memory best
constexpr unsigned kCache = 256;
constexpr std::uint16_t kDescriptors = 1024;
constexpr std::uint16_t kDataRoom = RTE_PKTMBUF_HEADROOM + 2048;
constexpr unsigned kMostLent = kBuffers / 2;  // so that queues cannot take all of them
constexpr unsigned kReadBeyond = 8;           // bytes that the engine may read after a lent frame

std::string devices() {
  std::string names;
  for (std::uint16_t id = 0; id < RTE_MAX_ETHPORTS; ++id) {
    char name[RTE_ETH_NAME_MAX_LEN];
    if (rte_eth_dev_is_valid_port(id) && rte_eth_dev_get_name_by_port(id, name) == 0) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  return names.empty() ? "none (--vdev=net_null0 or -a PCI-ADDRESS before '--' gives one)" : names;
}

}  // namespace

void init_eal(const std::vector<std::string>& arguments) {
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    throw InterfaceError(fmt::format("the EAL refused its arguments: {}", rte_strerror(rte_errno)));
  }
}

DpdkPort::DpdkPort(const std::string& device) : device_(device) {
  if (rte_eth_dev_get_port_by_name(device.c_str(), &id_) != 0) {
    throw InterfaceError(fmt::format("no DPDK device '{}'; devices: {}", device, devices()));
  }
  configure();
}

void DpdkPort::configure() {
  const auto check = [&](int result, const char* what) {
    if (result < 0) {
      throw InterfaceError(
          fmt::format("DPDK device {}: {}: {}", device_, what, std::strerror(-result)));
    }
  };
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(id_));
  pool_ = rte_pktmbuf_pool_create(fmt::format("port{}", id_).c_str(), kBuffers, kCache, 0,
                                  kDataRoom, static_cast<int>(socket));
  if (pool_ == nullptr) {
    throw InterfaceError(
        fmt::format("DPDK device {}: no memory for {} buffers: {} (-m gives the "
                    "EAL more MB)",
                    device_, kBuffers, rte_strerror(rte_errno)));
  }
  const rte_eth_conf plain{};
  check(rte_eth_dev_configure(id_, 1, 1, &plain), "configuring it");
  std::uint16_t rx = kDescriptors, tx = kDescriptors;
  check(rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx), "setting its ring sizes");
  check(rte_eth_rx_queue_setup(id_, 0, rx, socket, nullptr, pool_), "its receive queue");
  check(rte_eth_tx_queue_setup(id_, 0, tx, socket, nullptr), "its transmit queue");
  check(rte_eth_dev_start(id_), "starting it");
  rte_eth_promiscuous_enable(id_);  // drivers without a filter refuse this, and do not need it
}

DpdkPort::~DpdkPort() {
  flush();
  release();
  rte_eth_dev_stop(id_);
}

void DpdkPort::release() {
  for (unsigned i = 0; i < kept_count_; ++i) rte_pktmbuf_free(kept_[i]);
  kept_count_ = 0;
}

// One that others read as well must not change, and another pool's has another owner.
bool DpdkPort::lends(const rte_mbuf* mbuf) const {
  return lent_ < kMostLent && RTE_MBUF_DIRECT(mbuf) && rte_mbuf_refcnt_read(mbuf) == 1 &&
         rte_pktmbuf_tailroom(mbuf) >= kReadBeyond;
}

void DpdkPort::take_back(void* handle) {
  rte_pktmbuf_free(static_cast<rte_mbuf*>(handle));
  --lent_;
}

std::span<const ReceivedFrame> DpdkPort::receive() {
  // Only a thread known to the EAL has its own cache of buffers.
  [[maybe_unused]] static thread_local const int registered = rte_thread_register();
  release();
  std::array<rte_mbuf*, kBatch> burst;
  const unsigned count = rte_eth_rx_burst(id_, 0, burst.data(), kBatch);
  if (count == 0) return {};
  const std::int64_t now = monotonic_ns();
  unsigned accepted = 0;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* mbuf = burst[i];
    if (mbuf->nb_segs != 1) {
      kept_[kept_count_++] = mbuf;
      ++unreadable_;
      continue;
    }
    ReceivedFrame& frame = frames_[accepted++];
    frame = {{rte_pktmbuf_mtod(mbuf, const std::byte*), rte_pktmbuf_data_len(mbuf)}, now};
    if (lends(mbuf)) {
      frame.handle = mbuf;
      frame.lender = this;
      ++lent_;
    } else {
      kept_[kept_count_++] = mbuf;
    }
  }
  return {frames_.data(), accepted};
}

void DpdkPort::put(rte_mbuf* mbuf) {
  waiting_[waiting_count_++] = mbuf;
  if (waiting_count_ == kBatch) flush();
}

bool DpdkPort::send(std::span<const std::byte> frame, std::int64_t /*due_ns*/) {
  rte_mbuf* mbuf =
      frame.size() <= kDataRoom - RTE_PKTMBUF_HEADROOM ? rte_pktmbuf_alloc(pool_) : nullptr;
  if (mbuf == nullptr) {
    ++send_errors_;
    return false;
  }
  std::memcpy(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size())), frame.data(),
              frame.size());
  put(mbuf);
  return true;
}

bool DpdkPort::send_lent(const engine::LentFrame& frame, bool last, std::int64_t /*due_ns*/) {
  auto* mbuf = static_cast<rte_mbuf*>(frame.handle);
  if (last) {
    --static_cast<DpdkPort*>(frame.lender)->lent_;
  } else {
    rte_mbuf_refcnt_update(mbuf, 1);
  }
  mbuf->data_len = static_cast<std::uint16_t>(frame.bytes.size());
  mbuf->pkt_len = mbuf->data_len;
  put(mbuf);
  return true;
}

bool DpdkPort::flush() {
  if (waiting_count_ == 0) return true;
  const unsigned sent =
      rte_eth_tx_burst(id_, 0, waiting_.data(), static_cast<std::uint16_t>(waiting_count_));
  for (unsigned i = sent; i < waiting_count_; ++i) {
    rte_pktmbuf_free(waiting_[i]);
    ++send_errors_;
  }
  waiting_count_ = 0;
  return true;
}

bool DpdkPort::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

std::uint64_t DpdkPort::kernel_drops() {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return unreadable_;
  return stats.imissed + stats.ierrors + stats.rx_nombuf + unreadable_;
}

}  // namespace tiercast::vswitch
