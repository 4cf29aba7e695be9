// The machine's own limit: the least work that a paced sender can do. For one packet at a time it
// takes a buffer, copies headers into it, writes IP id, sequence number, time stamp and IP
// checksum, waits for the TSC and hands the packet to the driver. tiercast-send is compared with
// it.
//
//   tiercast-bare-loop -l 1 --vdev=net_null0 EAL-ARGUMENTS -- --rate 1e6 --size 46 --seconds 1
//
// The schedule is absolute: a late packet does not delay those after it. Prints one JSON object.
#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ip.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "protocols/wire/udp_frame.h"
#include "protocols/wire/wire.h"

namespace tiercast::bench {
namespace {

constexpr unsigned kBuffers = 8191;
constexpr std::uint16_t kDescriptors = 512;
// The message behind the frame's headers is as long as RLM's: sequence number and time stamp.
constexpr std::size_t kMessageBytes = 16;
constexpr std::size_t kSequenceAt = wire::kFrameHeaderBytes + 8;
constexpr std::size_t kStampAt = wire::kFrameHeaderBytes + 12;

struct Options {
  double rate = 0;  // packets/s; 0: as fast as possible
  unsigned size = 46;
  double seconds = 1;
};

void require(int result, const char* what) {
  if (result < 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(-result)));
}

rte_mempool* start_device() {
  if (rte_eth_dev_count_avail() == 0) throw std::runtime_error("no device: give --vdev=net_null0");
  rte_mempool* pool = rte_pktmbuf_pool_create("bare loop", kBuffers, 256, 0,
                                              RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) throw std::runtime_error("no memory for packet buffers");
  const rte_eth_conf plain{};
  require(rte_eth_dev_configure(0, 1, 1, &plain), "configuring the device");
  require(rte_eth_rx_queue_setup(0, 0, kDescriptors, 0, nullptr, pool), "its receive queue");
  require(rte_eth_tx_queue_setup(0, 0, kDescriptors, 0, nullptr), "its transmit queue");
  require(rte_eth_dev_start(0), "starting it");
  return pool;
}

using Headers = std::array<std::byte, wire::kFrameHeaderBytes + kMessageBytes>;

Headers make_headers(unsigned size) {
  std::vector<std::byte> frame(wire::kEthernetBytes + size);
  wire::UdpFlow flow;
  flow.source = 0x0a090002;
  flow.destination = wire::group_address(1, 0);
  flow.destination_mac = wire::multicast_mac(flow.destination);
  flow.source_port = flow.destination_port = wire::kDataPort;
  wire::write_udp_headers(flow, 0, frame);
  Headers headers{};
  std::copy_n(frame.begin(), std::min(frame.size(), headers.size()), headers.begin());
  return headers;
}

struct Result {
  std::uint64_t sent = 0;
  std::uint64_t refused = 0;
  double seconds = 0;
};

// Measured, because rte_get_tsc_hz() rounds to 10 MHz.
double tsc_hz() {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = rte_rdtsc();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto end = std::chrono::steady_clock::now();
  const std::uint64_t last = rte_rdtsc();
  return static_cast<double>(last - first) / std::chrono::duration<double>(end - begin).count();
}

Result send(const Options& options, rte_mempool* pool) {
  const Headers headers = make_headers(options.size);
  const auto bytes = static_cast<std::uint16_t>(wire::kEthernetBytes + options.size);
  const double hz = tsc_hz();
  const double interval = options.rate > 0 ? hz / options.rate : 0;
  const std::uint64_t start = rte_rdtsc() + static_cast<std::uint64_t>(hz / 100);
  const auto end = start + static_cast<std::uint64_t>(options.seconds * hz);
  Result result;
  std::uint16_t id = 0;
  double due = 0;  // cycles after `start`
  while (rte_rdtsc() < start) {
  }
  for (;;) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == nullptr) throw std::runtime_error("the device holds all buffers");
    auto* frame = reinterpret_cast<std::byte*>(rte_pktmbuf_append(mbuf, bytes));
    std::memcpy(frame, headers.data(), headers.size());
    auto* ip = reinterpret_cast<rte_ipv4_hdr*>(frame + wire::kEthernetBytes);
    ip->packet_id = rte_cpu_to_be_16(id++);
    ip->hdr_checksum = 0;
    ip->hdr_checksum = rte_ipv4_cksum(ip);
    const auto sequence = rte_cpu_to_be_32(static_cast<std::uint32_t>(result.sent));
    std::memcpy(frame + kSequenceAt, &sequence, sizeof sequence);
    std::uint64_t now = rte_rdtsc();
    const std::uint64_t wanted = start + static_cast<std::uint64_t>(due);
    while (now < wanted) now = rte_rdtsc();
    due += interval;
    const auto stamp = rte_cpu_to_be_32(static_cast<std::uint32_t>(now));
    std::memcpy(frame + kStampAt, &stamp, sizeof stamp);
    if (rte_eth_tx_burst(0, 0, &mbuf, 1) == 1) {
      ++result.sent;
    } else {
      ++result.refused;
      rte_pktmbuf_free(mbuf);
    }
    if (now >= end) {
      result.seconds = static_cast<double>(now - start) / hz;
      return result;
    }
  }
}

int run(int argc, char** argv) {
  const int used = rte_eal_init(argc, argv);
  if (used < 0) throw std::runtime_error("the EAL refused its arguments");
  CLI::App app("A TSC-paced loop on a DPDK device", "tiercast-bare-loop");
  Options options;
  app.add_option("--rate", options.rate, "packets/s; 0: unpaced")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--size", options.size, "IP bytes of a packet")
      ->check(CLI::Range(46u, 1500u))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber)->capture_default_str();
  try {
    app.parse(argc - used, argv + used);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const Result result = send(options, start_device());
  fmt::print(R"({{"sent": {}, "refused": {}, "seconds": {:.6f}, "packets_per_s": {:.1f}}})"
             "\n",
             result.sent, result.refused, result.seconds,
             static_cast<double>(result.sent) / result.seconds);
  rte_eth_dev_stop(0);
  rte_eal_cleanup();
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  try {
    return tiercast::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-bare-loop: {}\n", error.what());
    return 1;
  }
}
