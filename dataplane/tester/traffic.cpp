#include "dataplane/tester/traffic.h"

#include <rte_mbuf.h>
#include <rte_pause.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "dataplane/streams/test_frame.h"

namespace tiercast::tester {
namespace {

constexpr unsigned kBurst = dpdk::Port::kBurst;
constexpr std::int64_t kSleepAbove = 100'000;  // ns
constexpr std::int64_t kWakeBefore = 60'000;   // the kernel's timers are late by some 50 us
constexpr std::int64_t kSyncInterval = 1'000'000'000;

}  // namespace

Sent send(const Traffic& traffic, const dpdk::Port& port, rte_mempool* pool, std::mutex& lock,
          const std::atomic<bool>& stop) {
  const streams::TestFrame frame(traffic.source, traffic.source_mac, traffic.frame_bytes,
                                 traffic.trial);
  // Frames to one address are one stream, however often the address is in turn.
  std::unordered_map<std::uint32_t, std::uint32_t> streams;
  std::vector<std::uint32_t> stream_of;
  for (const Destination& to : traffic.destinations) {
    stream_of.push_back(
        streams.try_emplace(to.address, static_cast<std::uint32_t>(streams.size())).first->second);
  }
  std::vector<std::uint32_t> numbers(streams.size());
  std::array<rte_mbuf*, kBurst> burst{};
  std::size_t next = 0;
  Sent sent;
  dpdk::TscClock clock;
  const std::int64_t start = clock.now().ns();
  std::int64_t next_sync = start + kSyncInterval;
  const double ns_per_frame = traffic.rate > 0 ? 1e9 / traffic.rate : 0;
  const auto due = [&](std::uint64_t n) {
    return start + static_cast<std::int64_t>(static_cast<double>(n) * ns_per_frame);
  };
  while (sent.frames < traffic.frames && !stop.load(std::memory_order_relaxed)) {
    std::int64_t now = clock.now().ns();
    if (now >= next_sync) {
      clock.sync();
      next_sync = now + kSyncInterval;
    }
    std::uint64_t ready = std::min<std::uint64_t>(traffic.frames - sent.frames, kBurst);
    if (ns_per_frame > 0) {
      const std::int64_t wait = due(sent.frames) - now;
      if (wait > 0) {
        if (wait > kSleepAbove) {
          std::this_thread::sleep_for(std::chrono::nanoseconds(wait - kWakeBefore));
        } else {
          rte_pause();
        }
        continue;
      }
      while (ready > 1 && due(sent.frames + ready - 1) > now) --ready;
      sent.late.add(-wait);
    }
    const auto count = static_cast<unsigned>(ready);
    if (rte_pktmbuf_alloc_bulk(pool, burst.data(), count) != 0) {
      ++sent.refused;  // the device still holds them
      std::this_thread::yield();
      continue;
    }
    now = clock.now().ns();
    for (unsigned i = 0; i < count; ++i) {
      rte_mbuf* const mbuf = burst[i];
      mbuf->data_len = static_cast<std::uint16_t>(frame.bytes());
      mbuf->pkt_len = mbuf->data_len;
      const Destination& to = traffic.destinations[next];
      frame.write(rte_pktmbuf_mtod(mbuf, std::byte*), to.address, to.mac,
                  numbers[stream_of[next]]++, now);
      next = next + 1 == stream_of.size() ? 0 : next + 1;
    }
    if (sent.frames == 0) sent.first_ns = now;
    for (unsigned done = 0; done < count;) {
      {
        const std::lock_guard guard(lock);
        done += port.transmit_burst(0, burst.data() + done, count - done);
      }
      if (done == count) break;
      ++sent.refused;
      if (stop.load(std::memory_order_relaxed)) {
        rte_pktmbuf_free_bulk(burst.data() + done, count - done);
        sent.frames += done;
        return sent;
      }
      std::this_thread::yield();
    }
    sent.frames += count;
    sent.last_ns = now;
  }
  return sent;
}

}  // namespace tiercast::tester
