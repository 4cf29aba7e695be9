// Packets/s of the data plane of tiercast-switch-dpdk over net_null or net_ring. Prints one JSON
// object (docs/performance.md).
//
//   tiercast-switch-dpdk-bench --program p4src/compiled/tiercast.json --driver net_null
//       --workload tcp
//
// net_null: the workload's frame is written into each buffer that the device gives, and what leaves
// is discarded. net_ring: a thread of this program sends into port 1's ring as fast as the ring
// takes frames, and empties the other rings.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_ethdev.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "dataplane/engine/bench/allocations.h"
#include "dataplane/switch/bench/devices.h"
#include "dataplane/switch/bench/main.h"
#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/data_plane.h"
#include "dataplane/switch/dpdk/dpdk_port.h"

namespace tiercast::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kWarmUp = 300ms;
constexpr auto kMeasured = 2s;
constexpr unsigned kBurst = 32;

std::unique_ptr<vswitch::FramePort> open_device(const std::string& device) {
  return std::make_unique<vswitch::DpdkPort>(device);
}

std::uint16_t device_id(const std::string& name) {
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) != 0) {
    throw std::runtime_error("no DPDK device " + name);
  }
  return id;
}

// net_null gives buffers of zeros, so the frame must be written into them.
std::uint16_t fill(std::uint16_t, std::uint16_t, rte_mbuf** mbufs, std::uint16_t count,
                   std::uint16_t, void* workload) {
  const auto& frame = static_cast<const Workload*>(workload)->frame;
  for (std::uint16_t i = 0; i < count; ++i) {
    std::memcpy(rte_pktmbuf_mtod(mbufs[i], void*), frame.data(), frame.size());
    mbufs[i]->data_len = static_cast<std::uint16_t>(frame.size());
    mbufs[i]->pkt_len = mbufs[i]->data_len;
  }
  return count;
}

// The far ends of the rings.
void exchange(const Workload& workload, rte_mempool* pool, const std::atomic<bool>& stop) {
  const std::uint16_t source = device_id("net_ring1");
  std::vector<std::uint16_t> sinks;
  for (std::uint32_t port = 2; port <= kPorts; ++port) {
    sinks.push_back(device_id(fmt::format("net_ring{}", port)));
  }
  rte_mbuf* mbufs[kBurst];
  while (!stop) {
    if (rte_pktmbuf_alloc_bulk(pool, mbufs, kBurst) == 0) {
      fill(0, 0, mbufs, kBurst, kBurst, const_cast<Workload*>(&workload));
      const std::uint16_t sent = rte_eth_tx_burst(source, 0, mbufs, kBurst);
      for (unsigned i = sent; i < kBurst; ++i) rte_pktmbuf_free(mbufs[i]);
    }
    for (const std::uint16_t sink : sinks) {
      rte_mbuf* received[kBurst];
      const std::uint16_t count = rte_eth_rx_burst(sink, 0, received, kBurst);
      for (std::uint16_t i = 0; i < count; ++i) rte_pktmbuf_free(received[i]);
    }
  }
}

struct Totals {
  std::uint64_t in = 0, out = 0, errors = 0;
};

Totals totals(vswitch::DataPlane& plane) {
  Totals sum;
  plane.call([&] {
    for (const vswitch::PortReport& port : plane.report()) {
      sum.in += port.stats.rx_packets;
      sum.out += port.stats.tx_packets;
      sum.errors += port.send_errors;
    }
  });
  return sum;
}

std::string measure(const std::shared_ptr<const engine::Program>& program, const Workload& workload,
                    const std::string& driver) {
  std::vector<vswitch::PortOption> ports;
  for (std::uint32_t port = 1; port <= kPorts; ++port) {
    ports.push_back({port, fmt::format("dpdk:{}{}", driver, port), {}});
  }
  vswitch::DataPlane plane(ports, 510);
  plane.set_native(vswitch::NativeMode::kWait);
  plane.set_program(program);
  install_entries(*plane.pipeline());
  rte_mempool* pool = nullptr;
  const rte_eth_rxtx_callback* callback = nullptr;
  std::atomic<bool> stop = false;
  std::thread far_end;
  const std::uint16_t source = device_id(driver + "1");
  if (driver == "net_null") {
    callback = rte_eth_add_rx_callback(source, 0, fill, const_cast<Workload*>(&workload));
  } else {
    pool = rte_pktmbuf_pool_create("far end", 8191, 0, 0, RTE_PKTMBUF_HEADROOM + 2048, 0);
    if (pool == nullptr) throw std::runtime_error("no memory for the far end's buffers");
    far_end = std::thread([&] { exchange(workload, pool, stop); });
  }
  plane.start();
  std::this_thread::sleep_for(kWarmUp);
  const Totals before = totals(plane);
  const std::size_t allocated = allocations();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(kMeasured);
  const std::size_t allocated_after = allocations();
  const Totals after = totals(plane);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  plane.stop();
  if (callback != nullptr) rte_eth_remove_rx_callback(source, 0, callback);
  stop = true;
  if (far_end.joinable()) far_end.join();
  const auto in = static_cast<double>(after.in - before.in);
  const auto out = static_cast<double>(after.out - before.out);
  return fmt::format(
      "{{\"program\": \"{}\", \"workload\": \"{}\", \"frame_bytes\": {}, \"packets_per_s\": "
      "{:.0f}, "
      "\"frames_out_per_s\": {:.0f}, \"ns_per_packet\": {:.1f}, \"refused_by_device\": {}, "
      "\"allocations_per_packet\": {:.3g}}}",
      driver, workload.name, workload.frame.size(), in / seconds, out / seconds, seconds * 1e9 / in,
      after.errors - before.errors, static_cast<double>(allocated_after - allocated) / in);
}

int run(int argc, char** argv) {
  CLI::App app("Packets/s of the switch over DPDK's net_null or net_ring.");
  std::string program, driver, name;
  app.add_option("--program", program, "p4src's bmv2 JSON")->required();
  app.add_option("--driver", driver)->required()->check(CLI::IsMember({"net_null", "net_ring"}));
  app.add_option("--workload", name, "sim_data, sim_feedback or tcp")->required();
  CLI11_PARSE(app, argc, argv);
  const auto loaded = load_program(program);
  start_devices(argv[0], driver, "warning");
  vswitch::set_device_opener(open_device);
  fmt::print("{}\n", measure(loaded, workload(name), driver));
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  return tiercast::bench::run_main("tiercast-switch-dpdk-bench", argc, argv, tiercast::bench::run);
}
