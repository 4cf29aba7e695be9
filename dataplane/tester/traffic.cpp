#include "dataplane/tester/traffic.h"

#include <rte_mbuf.h>
#include <rte_pause.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/thread_sanitizer.h"
#include "dataplane/streams/test_frame.h"

namespace tiercast::tester {
namespace {

constexpr unsigned kBurst = dpdk::Port::kBurst;
constexpr std::int64_t kSleepAbove = 100'000;  // ns
constexpr std::int64_t kWakeBefore = 60'000;   // the kernel's timers are late by some 50 us
constexpr std::int64_t kSyncInterval = 1'000'000'000;

// Sends parts of one trial, one after the other.
class TrialSender {
 public:
  TrialSender(const Traffic& traffic, const dpdk::Port& port, rte_mempool* pool, std::mutex& lock,
              const std::atomic<bool>& stop, std::latch* begun)
      : traffic_(traffic),
        port_(port),
        pool_(pool),
        lock_(lock),
        stop_(stop),
        begun_(begun),
        frame_(traffic.source, traffic.source_mac, traffic.frame_bytes, traffic.trial),
        next_sync_(clock_.now().ns() + kSyncInterval) {
    // Frames to one address are one stream, however often the address is in turn.
    std::unordered_map<std::uint32_t, std::uint32_t> known;
    for (const Destination& to : traffic.destinations) {
      const auto number = static_cast<std::uint32_t>(known.size());
      stream_of_.push_back(known.try_emplace(to.address, number).first->second);
    }
    numbers_.resize(known.size());
  }

  // `rate`: frames/s on an absolute schedule; 0: as fast as the device takes them.
  void run(double rate, std::uint64_t frames);
  void count_begun() {
    if (begun_) std::exchange(begun_, nullptr)->count_down();
  }
  const Sent& sent() const { return sent_; }
  std::int64_t now_ns() const { return clock_.now().ns(); }

 private:
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  void fill(unsigned count, std::int64_t now);
  bool transmit(unsigned count);

  const Traffic& traffic_;
  const dpdk::Port& port_;
  rte_mempool* const pool_;
  std::mutex& lock_;
  const std::atomic<bool>& stop_;
  std::latch* begun_;  // until it is counted down
  const streams::TestFrame frame_;
  dpdk::TscClock clock_;
  std::int64_t next_sync_;
  std::vector<std::uint32_t> stream_of_;  // by destination
  std::vector<std::uint32_t> numbers_;    // by stream
  std::size_t next_ = 0;                  // destination
  std::array<rte_mbuf*, kBurst> burst_{};
  Sent sent_;
};

void TrialSender::run(double rate, std::uint64_t frames) {
  const std::int64_t start = now_ns();
  const double ns_per_frame = rate > 0 ? 1e9 / rate : 0;
  const auto due = [&](std::uint64_t n) {
    return start + static_cast<std::int64_t>(static_cast<double>(n) * ns_per_frame);
  };
  for (std::uint64_t done = 0; done < frames && !stopped();) {
    std::int64_t now = now_ns();
    if (now >= next_sync_) {
      clock_.sync();
      next_sync_ = now + kSyncInterval;
    }
    std::uint64_t ready = std::min<std::uint64_t>(frames - done, kBurst);
    if (ns_per_frame > 0) {
      const std::int64_t wait = due(done) - now;
      if (wait > 0) {
        if (wait > kSleepAbove) {
          std::this_thread::sleep_for(std::chrono::nanoseconds(wait - kWakeBefore));
        } else {
          rte_pause();
        }
        continue;
      }
      while (ready > 1 && due(done + ready - 1) > now) --ready;
      sent_.late.add(-wait);
    }
    const auto count = static_cast<unsigned>(ready);
    if (rte_pktmbuf_alloc_bulk(pool_, burst_.data(), count) != 0) {
      ++sent_.refused;  // the device still holds them
      std::this_thread::yield();
      continue;
    }
    for (unsigned i = 0; i < count; ++i) take_over(burst_[i]);
    now = now_ns();
    fill(count, now);
    if (sent_.frames == 0) sent_.first_ns = now;
    if (!transmit(count)) return;
    count_begun();
    done += count;
    sent_.last_ns = now;
  }
}

void TrialSender::fill(unsigned count, std::int64_t now) {
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* const mbuf = burst_[i];
    mbuf->data_len = static_cast<std::uint16_t>(frame_.bytes());
    mbuf->pkt_len = mbuf->data_len;
    const Destination& to = traffic_.destinations[next_];
    frame_.write(rte_pktmbuf_mtod(mbuf, std::byte*), to.address, to.mac,
                 numbers_[stream_of_[next_]]++, now);
    next_ = next_ + 1 == stream_of_.size() ? 0 : next_ + 1;
  }
}

// False if it was stopped before the device took all.
bool TrialSender::transmit(unsigned count) {
  for (unsigned taken = 0;;) {
    {
      const std::lock_guard guard(lock_);
      const unsigned more = port_.transmit_burst(0, burst_.data() + taken, count - taken);
      taken += more;
      sent_.frames += more;
    }
    if (taken == count) return true;
    ++sent_.refused;
    if (stopped()) {
      rte_pktmbuf_free_bulk(burst_.data() + taken, count - taken);
      return false;
    }
    std::this_thread::yield();
  }
}

}  // namespace

Sent send(const Traffic& traffic, const dpdk::Port& port, rte_mempool* pool, std::mutex& lock,
          const std::atomic<bool>& stop, std::latch* begun) {
  TrialSender sender(traffic, port, pool, lock, stop, begun);
  sender.run(traffic.rate, traffic.frames);
  const std::int64_t then_ns = sender.now_ns();
  sender.run(traffic.then_rate, traffic.then_frames);
  sender.count_begun();
  Sent sent = sender.sent();
  sent.then_ns = then_ns;
  return sent;
}

}  // namespace tiercast::tester
