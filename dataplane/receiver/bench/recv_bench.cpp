// What the analyser costs beside a bare receive loop, over net_ring with frames of 64 bytes.
//
//   tiercast-recv-bench -l 0,1 EAL-ARGUMENTS -- --mode analyser --streams 1000 --seconds 1
//
// A thread on the second lcore makes test frames (numbered for each stream, stamped, with valid
// checksums; the streams in a shuffled order) and puts them into the ring as fast as the ring takes
// them; the first lcore receives. With one lcore it does both in turns, a burst each, and only the
// time of receiving counts ("memory": the frames are in the cache, as after a NIC's DMA).
// ns_per_packet is the time of the polls that found something.
//
//   --mode bare      takes a burst, reads the clock, reads each frame's group and number, adds
//                    bytes, frees
//   --mode analyser  PortAnalyser::poll(), as in tiercast-recv --poll
//
// Prints one JSON object. The analyser's counts are checked against what the source sent.
#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_ring.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "agent/clock.h"
#include "agent/options.h"
#include "agent/run.h"
#include "dataplane/dpdk/command_line.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/dpdk/tsc_clock.h"
#include "dataplane/receiver/port/port_analyser.h"
#include "dataplane/streams/test_frame.h"
#include "protocols/base/rng.h"
#include "protocols/wire/wire.h"

namespace tiercast::receiver {
namespace {

constexpr unsigned kBurst = 32;
constexpr unsigned kRing = 1024;
constexpr std::uint32_t kSource = 0x0a090002;
constexpr std::size_t kFrameBytes = streams::TestFrame::kSmallest;  // 64 with FCS
constexpr std::size_t kMessageAt = wire::kFrameHeaderBytes;

// 8 layers of each session.
std::uint32_t group_of(std::uint32_t stream) { return wire::kGroupBase + stream; }

class FrameSource {
 public:
  FrameSource(rte_ring* ring, std::uint32_t streams, rte_mempool* pool)
      : ring_(ring), pool_(pool), seq_(streams), order_(streams) {
    std::iota(order_.begin(), order_.end(), 0u);
    Rng rng(1);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.below(i)]);
  }

  // Puts a burst into the ring. False: the ring had no room for it.
  bool offer(std::int64_t now_ns) {
    if (waiting_ == 0) {
      if (rte_pktmbuf_alloc_bulk(pool_, burst_.data(), kBurst) != 0) return false;
      for (rte_mbuf* const mbuf : burst_) write(mbuf, now_ns);
      waiting_ = kBurst;
    }
    const unsigned sent = rte_ring_sp_enqueue_bulk(
        ring_, reinterpret_cast<void* const*>(burst_.data()), kBurst, nullptr);
    if (sent == 0) return false;
    waiting_ = 0;
    sent_ += kBurst;
    return true;
  }
  std::uint64_t sent() const { return sent_; }

 private:
  void write(rte_mbuf* mbuf, std::int64_t now_ns) {
    const std::uint32_t stream = order_[next_];
    next_ = next_ + 1 == order_.size() ? 0 : next_ + 1;
    mbuf->data_len = kFrameBytes;
    mbuf->pkt_len = kFrameBytes;
    const std::uint32_t group = group_of(stream);
    frame_.write(rte_pktmbuf_mtod(mbuf, std::byte*), group, wire::multicast_mac(group),
                 seq_[stream]++, now_ns);
  }

  rte_ring* const ring_;
  rte_mempool* const pool_;
  std::vector<std::uint32_t> seq_;
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  const streams::TestFrame frame_{kSource, {}, kFrameBytes, 0};
  std::array<rte_mbuf*, kBurst> burst_{};
  unsigned waiting_ = 0;
  std::uint64_t sent_ = 0;
};

// The least that a receiver of numbered streams can do.
class BareLoop {
 public:
  BareLoop(dpdk::Port& port, const dpdk::TscClock& clock) : port_(port), clock_(clock) {}
  unsigned poll() {
    const unsigned count = port_.receive_burst(burst_);
    if (count == 0) return 0;
    latest_ = clock_.now();
    for (unsigned i = 0; i < count; ++i) {
      __builtin_prefetch(rte_pktmbuf_mtod(burst_[i], const void*));
    }
    for (unsigned i = 0; i < count; ++i) {
      const auto* const bytes = rte_pktmbuf_mtod(burst_[i], const std::byte*);
      std::uint32_t group = 0, seq = 0;
      std::memcpy(&group, bytes + 30, 4);
      std::memcpy(&seq, bytes + kMessageAt + 4, 4);
      sum_ += group ^ seq;
      bytes_ += rte_pktmbuf_pkt_len(burst_[i]);
    }
    rte_pktmbuf_free_bulk(burst_.data(), count);
    packets_ += count;
    return count;
  }
  std::uint64_t packets() const { return packets_; }
  std::uint64_t sum() const { return sum_ + bytes_ + static_cast<std::uint64_t>(latest_.ns()); }

 private:
  dpdk::Port& port_;
  const dpdk::TscClock& clock_;
  std::array<rte_mbuf*, dpdk::Port::kBurst> burst_{};
  std::uint64_t packets_ = 0, bytes_ = 0, sum_ = 0;
  Time latest_;
};

struct Result {
  std::uint64_t packets = 0;
  std::uint64_t empty_polls = 0, polls = 0;
  double seconds = 0;      // in which they came
  double receiving_s = 0;  // of polls that found something
};

template <typename Poll>
Result receive(FrameSource& source, const dpdk::TscClock& clock, double seconds, bool two,
               Poll poll) {
  Result result;
  std::atomic<bool> stop{false};
  std::thread feeder;
  if (two) {
    const unsigned lcore = dpdk::Eal::worker_lcores().front();
    feeder = std::thread([&source, &stop, lcore] {
      rte_cpuset_t set = rte_lcore_cpuset(lcore);
      pthread_setaffinity_np(pthread_self(), sizeof set, &set);
      rte_thread_register();
      const dpdk::TscClock own;
      while (!stop.load(std::memory_order_relaxed)) source.offer(own.now().ns());
      rte_thread_unregister();
    });
    while (poll() == 0) {
    }
  }
  const auto wanted = Duration::seconds(seconds);
  const Time start = clock.now();
  Time now = start;
  std::int64_t receiving_ns = 0;
  while (now - start < wanted) {
    for (int i = 0; i < 64; ++i) {
      if (!two) {
        source.offer(now.ns());
        now = clock.now();
      }
      const unsigned count = poll();
      const Time after = clock.now();
      if (count > 0) receiving_ns += (after - now).ns();
      now = after;
      result.packets += count;
      result.empty_polls += count == 0;
      ++result.polls;
    }
    now = clock.now();
  }
  result.receiving_s = static_cast<double>(receiving_ns) * 1e-9;
  result.seconds = two ? (now - start).seconds() : result.receiving_s;
  stop.store(true);
  if (feeder.joinable()) feeder.join();
  while (poll() > 0) {
  }
  return result;
}

int run(const std::vector<std::string>& arguments) {
  const dpdk::CommandLine line(arguments);
  CLI::App app("The analyser beside a bare receive loop, over net_ring", "tiercast-recv-bench");
  std::string mode = "analyser";
  std::uint32_t streams = 1000;
  double seconds = 1;
  app.add_option("--mode", mode)->check(CLI::IsMember({"bare", "analyser"}));
  app.add_option("--streams", streams)->check(CLI::Range(1, 262144));
  app.add_option("--seconds", seconds)->check(CLI::PositiveNumber);
  if (const auto status = agent::parse_command_line(app, line.own)) return *status;
  line.require_eal_arguments("tiercast-recv-bench -l 0,1 --no-huge -m 256 -- --mode bare");
  const dpdk::Eal eal("tiercast-recv-bench", line.eal_arguments);
  rte_ring* const ring = rte_ring_create("frames", kRing, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
  rte_ring* const back = rte_ring_create("back", kRing, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
  rte_ring* rings[] = {ring};
  rte_ring* backs[] = {back};
  if (ring == nullptr || back == nullptr ||
      rte_eth_from_rings("net_ring_bench", rings, 1, backs, 1, 0) < 0) {
    throw std::runtime_error("no ring device");
  }
  rte_mempool* const pool =
      rte_pktmbuf_pool_create("source", 4095, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) throw std::runtime_error("no memory (-m gives the EAL more MB)");
  dpdk::PortNeeds needs;
  needs.many_frames = true;
  dpdk::Port port(eal.devices().front(), needs);
  const bool two = rte_lcore_count() > 1;
  FrameSource source(ring, streams, pool);
  const dpdk::TscClock clock;
  Result result;
  if (mode == "bare") {
    BareLoop loop(port, clock);
    result = receive(source, clock, seconds, two, [&loop] { return loop.poll(); });
    if (loop.packets() != source.sent() || loop.sum() == 0)
      throw std::runtime_error("packets lost");
  } else {
    PortAnalyser::Settings settings;
    settings.own = {port.mac(), 0x0a090003};
    settings.streams = streams;
    settings.any = true;
    PortAnalyser analyser(std::move(settings), port);
    result = receive(source, clock, seconds, two, [&] { return analyser.poll(clock); });
    std::uint64_t in_order = 0;
    for (std::uint32_t i = 0; i < analyser.streams().size(); ++i) {
      in_order += analyser.streams()[i].sequence.in_order();
    }
    if (in_order != source.sent() || analyser.fate(Fate::kData) != in_order) {
      throw std::runtime_error(
          fmt::format("{} packets in order of {} sent", in_order, source.sent()));
    }
  }
  fmt::print(R"({{"mode":"{}","streams":{},"source":"{}","packets":{},"seconds":{:.6f},)"
             R"("packets_per_s":{:.1f},"ns_per_packet":{:.2f},"empty_polls":{:.4f}}})"
             "\n",
             mode, streams, two ? "ring" : "memory", result.packets, result.seconds,
             static_cast<double>(result.packets) / result.seconds,
             result.receiving_s * 1e9 / static_cast<double>(result.packets),
             static_cast<double>(result.empty_polls) / static_cast<double>(result.polls));
  return 0;
}

}  // namespace
}  // namespace tiercast::receiver

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-recv-bench", argc, argv, tiercast::receiver::run);
}
