// The same packets through the engine's queue, with what the P4 program does at it, and through a
// queue disc of ns-3.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <gtest/gtest.h>
// Headers one by one: the modules' bring some that are not C++20.
#include <ns3/ipv4-header.h>
#include <ns3/ipv4-queue-disc-item.h>
#include <ns3/mac48-address.h>
#include <ns3/packet.h>
#include <ns3/queue-disc.h>
#include <ns3/simulator.h>

#include <cstdint>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "dataplane/accounts/accounts.h"
#include "tests/p4src/bench.h"

namespace tiercast::p4test {

inline constexpr std::uint32_t kIpBytes = 1000;
inline constexpr std::int64_t kService = kMillisecond;  // of a packet at 8 Mbit/s
inline constexpr std::size_t kPackets = 60'000;         // 16 bits identify them

struct Fate {
  double dropped = 0, marked = 0;  // share of the packets that arrived
  double wait = 0;                 // in the queue: mean over those that left it, in packet times
  double carried = 0;              // packets that left, as a share of what the link could have sent

  Fate& operator+=(const Fate& other) {
    dropped += other.dropped;
    marked += other.marked;
    wait += other.wait;
    carried += other.carried;
    return *this;
  }
  Fate operator/(double runs) const {
    return {dropped / runs, marked / runs, wait / runs, carried / runs};
  }
};

inline std::ostream& operator<<(std::ostream& out, const Fate& fate) {
  return out << "dropped " << fate.dropped << ", marked " << fate.marked << ", waited " << fate.wait
             << " packet times, link carried " << fate.carried;
}

// `load`: of the link. Gaps are exponential (Poisson), or uniform between a half and one and a half
// of their mean.
inline std::vector<std::int64_t> arrivals(double load, bool poisson, std::uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> exponential;
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<std::int64_t> times(kPackets);
  double now = 0;
  for (std::int64_t& time : times) {
    now += (poisson ? exponential(random) : uniform(random)) * kService / load;
    time = static_cast<std::int64_t>(now);
  }
  return times;
}

// What the link could have sent in the time of the arrivals.
inline double capacity(const std::vector<std::int64_t>& times) {
  return static_cast<double>(times.back()) / kService;
}

// Packets at a port that has been set up.
inline Fate carry(Bench& bench, const std::vector<std::int64_t>& times) {
  Fate fate;
  std::size_t left = 0;
  const auto take = [&] {
    for (const Sent& sent : bench.sent()) {
      const std::size_t id = std::to_integer<std::size_t>(sent.frame[kEthernetBytes + 4]) << 8 |
                             std::to_integer<std::size_t>(sent.frame[kEthernetBytes + 5]);
      fate.wait += static_cast<double>(sent.due_ns - kService - times[id]) / kService;
      ++left;
    }
    bench.clear();
  };
  Packet packet;
  packet.ecn = kEct0;
  packet.payload.resize(kIpBytes - kIpv4Bytes);
  for (std::size_t i = 0; i < times.size(); ++i) {
    bench.advance_to(times[i]);
    packet.identification = static_cast<std::uint16_t>(i);
    bench.receive(1, packet);
    take();
  }
  bench.finish();
  take();
  fate.wait /= static_cast<double>(left);
  fate.carried = static_cast<double>(left) / capacity(times);
  const accounts::PortAccounts accounts = accounts::read(bench.engine_switch(), kPort);
  EXPECT_TRUE(accounts.balanced());
  EXPECT_EQ(accounts.total.entered, kPackets);
  EXPECT_EQ(accounts.total.left, left);
  fate.dropped = static_cast<double>(accounts.total.policy_drops) / kPackets;
  fate.marked = static_cast<double>(accounts.total.marked) / kPackets;
  return fate;
}

// A queue disc before a link that sends a packet in kService.
class Ns3Link {
 public:
  explicit Ns3Link(ns3::Ptr<ns3::QueueDisc> disc) : disc_(std::move(disc)) {}

  Fate carry(const std::vector<std::int64_t>& times) {
    for (const std::int64_t time : times) {
      ns3::Simulator::Schedule(ns3::NanoSeconds(time), &Ns3Link::receive, this);
    }
    // Some discs have timers that never end. By then the queue is empty.
    ns3::Simulator::Stop(ns3::NanoSeconds(times.back() + 100'000 * kService));
    ns3::Simulator::Run();
    ns3::Simulator::Destroy();
    const ns3::QueueDisc::Stats& stats = disc_->GetStats();
    const auto packets = static_cast<double>(times.size());
    const double left = stats.nTotalSentPackets;
    Fate fate;
    fate.dropped = stats.nTotalDroppedPackets / packets;
    fate.marked = stats.nTotalMarkedPackets / packets;
    fate.wait = wait_ / left;
    fate.carried = left / capacity(times);
    return fate;
  }

 private:
  void receive() {
    ns3::Ipv4Header header;
    header.SetEcn(ns3::Ipv4Header::ECN_ECT0);
    const auto packet = ns3::Create<ns3::Packet>(kIpBytes - header.GetSerializedSize());
    disc_->Enqueue(
        ns3::Create<ns3::Ipv4QueueDiscItem>(packet, ns3::Mac48Address(), 0x0800, header));
    if (!busy_) send();
  }

  void send() {
    const auto item = disc_->Dequeue();
    busy_ = item != nullptr;
    if (!busy_) return;
    const ns3::Time waited = ns3::Simulator::Now() - item->GetTimeStamp();
    wait_ += static_cast<double>(waited.GetNanoSeconds()) / kService;
    ns3::Simulator::Schedule(ns3::NanoSeconds(kService), &Ns3Link::send, this);
  }

  ns3::Ptr<ns3::QueueDisc> disc_;
  bool busy_ = false;
  double wait_ = 0;  // packet times, summed
};

}  // namespace tiercast::p4test
