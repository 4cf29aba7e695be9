#include "dataplane/sender/port/port.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/interface.h"
#include "base/thread_sanitizer.h"
#include "base/unique_fd.h"
#include "dataplane/sender/port/packet_socket.h"
#include "protocols/base/units.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::sender {
namespace {

constexpr unsigned kBuffers =
    2047;  // 2^n - 1 uses a mempool's memory best; both directions share them
constexpr unsigned kSharedBuffers = 8191;  // a receiving thread and its workers hold more
constexpr unsigned kCache = 64;
constexpr unsigned kWorkerCache = 256;
constexpr std::uint16_t kDescriptors = 512;
// Enough for a million frames a second during two milliseconds in which the receiving thread does
// not run.
constexpr std::uint16_t kReceiveDescriptors = 2048;
constexpr std::uint16_t kDataRoom = RTE_PKTMBUF_HEADROOM + 2048;
constexpr std::uint16_t kJumboRoom = RTE_PKTMBUF_HEADROOM + 9216;

std::string device_choices() {
  return fmt::format(
      "Give one device in the EAL arguments before '--':\n"
      "  --vdev=net_af_packet0,iface=NAME   NAME one of: {}\n"
      "  --vdev=net_pcap0,rx_pcap=IN,tx_pcap=OUT   --vdev=net_null0   --vdev=net_ring0\n"
      "  -a PCI-ADDRESS                     a NIC bound to vfio-pci (dpdk-devbind.py -s lists "
      "them)",
      agent::interface_names());
}

// Without a choice of cores, the EAL would pin this thread to one core and start an idle thread on
// each of the others. Instead, one lcore floats over the CPUs that the process may use.
std::string floating_lcore() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus += fmt::format("{}{}", cpus.empty() ? "" : ",", cpu);
  }
  return fmt::format("--lcores=0@({})", cpus);
}

bool has_option(const std::vector<std::string>& arguments,
                std::initializer_list<std::string_view> prefixes) {
  return std::any_of(arguments.begin(), arguments.end(), [&](std::string_view argument) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return argument.starts_with(prefix); });
  });
}

// The EAL prints its usage to standard output, where only the trace may go.
int init_eal(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  std::fflush(stdout);
  const UniqueFd standard_output(dup(STDOUT_FILENO));
  dup2(STDERR_FILENO, STDOUT_FILENO);
  const int result = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  dup2(standard_output.get(), STDOUT_FILENO);
  return result;
}

void check(int result, std::string_view what, std::string_view driver) {
  if (result >= 0) return;
  throw ConfigError(fmt::format("device {}: {} failed: {}", driver, what, std::strerror(-result)));
}

}  // namespace

Port::Port(const std::string& program, const std::vector<std::string>& eal_arguments,
           const PortNeeds& needs) {
  std::vector<std::string> arguments{program};
  arguments.insert(arguments.end(), eal_arguments.begin(), eal_arguments.end());
  if (!has_option(eal_arguments, {"-l", "-c", "--lcores"})) arguments.push_back(floating_lcore());
  // Otherwise the huge pages stay allocated after the program has ended, in files that only the
  // next run can reuse.
  if (!has_option(eal_arguments,
                  {"--in-memory", "--no-huge", "--huge-unlink", "--legacy-mem", "--proc-type"})) {
    arguments.push_back("--in-memory");
  }
  if (!has_option(eal_arguments, {"--log-level"})) arguments.push_back("--log-level=warning");
  const std::string given = fmt::format("{}", fmt::join(eal_arguments, " "));
  if (init_eal(std::move(arguments)) < 0) {
    throw ConfigError(fmt::format("the EAL refused '{}': {}\n{}", given, rte_strerror(rte_errno),
                                  device_choices()));
  }
  try {
    configure(given, needs);
  } catch (...) {
    rte_eal_cleanup();
    throw;
  }
}

void Port::configure(const std::string& eal_arguments, const PortNeeds& needs) {
  const std::uint32_t ip_bytes = needs.ip_bytes;
  const unsigned ports = rte_eth_dev_count_avail();
  if (ports != 1) {
    throw ConfigError(fmt::format(
        "the EAL arguments '{}' give {} usable devices instead of one{}\n{}", eal_arguments, ports,
        ports == 0 ? " (missing, busy, or not permitted)" : "", device_choices()));
  }
  id_ = static_cast<std::uint16_t>(rte_eth_find_next_owned_by(0, RTE_ETH_DEV_NO_OWNER));

  rte_eth_dev_info info{};
  check(rte_eth_dev_info_get(id_, &info), "reading its properties", "0");
  driver_ = info.driver_name;
  if (info.if_index != 0) interface_ = agent::interface_name(info.if_index);

  std::uint16_t mtu = 0;
  if (rte_eth_dev_get_mtu(id_, &mtu) == 0 && mtu != 0 && ip_bytes > mtu) {
    throw ConfigError(fmt::format("--packet-size: {} is above the MTU of {} {}, {} bytes", ip_bytes,
                                  driver_, interface_, mtu));
  }

  const bool jumbo = ip_bytes + wire::kEthernetBytes > kDataRoom - RTE_PKTMBUF_HEADROOM;
  // If a thread receives beside the workers, frames wait in rings between them.
  const bool large = needs.poll || worker_lcores().front() != rte_get_main_lcore();
  const unsigned buffers = large ? kSharedBuffers : kBuffers;
  pool_ = rte_pktmbuf_pool_create("tiercast-send", buffers, kCache, needs.private_bytes,
                                  jumbo ? kJumboRoom : kDataRoom, rte_eth_dev_socket_id(id_));
  if (pool_ == nullptr) {
    throw ConfigError(fmt::format("no memory for {} packet buffers: {} (-m gives the EAL more MB)",
                                  buffers, rte_strerror(rte_errno)));
  }

  rte_eth_conf configuration{};
  const auto queues = static_cast<std::uint16_t>(worker_lcores().size());
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
  link_interrupt_ = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
  configuration.intr_conf.lsc = link_interrupt_ ? 1 : 0;
  check(rte_eth_dev_configure(id_, 1, queues, &configuration), "configuring it", driver_);
  std::uint16_t rx_descriptors = large ? kReceiveDescriptors : kDescriptors;
  std::uint16_t tx_descriptors = kDescriptors;
  check(rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors, &tx_descriptors),
        "setting its ring sizes", driver_);
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(id_));
  check(rte_eth_rx_queue_setup(id_, 0, rx_descriptors, socket, nullptr, pool_),
        "setting up its receive queue", driver_);
  for (std::uint16_t queue = 0; queue < queues; ++queue) {
    check(rte_eth_tx_queue_setup(id_, queue, tx_descriptors, socket, nullptr),
          "setting up a transmit queue", driver_);
  }
  check(rte_eth_dev_start(id_), "starting it", driver_);

  if (driver_ == "net_af_packet") {
    receive_descriptor_ = find_packet_socket(info.if_index);
    ignore_outgoing(receive_descriptor_);
    interface_state_.emplace(interface_);
  }
}

Port::~Port() {
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  rte_eal_cleanup();
}

agent::MacAddress Port::mac() const {
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  agent::MacAddress mac{};
  std::memcpy(mac.data(), address.addr_bytes, mac.size());
  return mac;
}

std::vector<unsigned> Port::worker_lcores() {
  std::vector<unsigned> lcores;
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores.push_back(lcore);
  if (lcores.empty()) lcores.push_back(rte_get_main_lcore());
  return lcores;
}

unsigned Port::transmit_burst(std::uint16_t queue, rte_mbuf** buffers, unsigned count) const {
  return rte_eth_tx_burst(id_, queue, buffers, static_cast<std::uint16_t>(count));
}

rte_mempool* Port::make_pool(const std::string& name, unsigned count,
                             std::size_t frame_bytes) const {
  const std::size_t room = std::max<std::size_t>(kDataRoom, RTE_PKTMBUF_HEADROOM + frame_bytes);
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
  return rte_eth_rx_burst(id_, 0, frames.data(), kBurst);
}

}  // namespace tiercast::sender
