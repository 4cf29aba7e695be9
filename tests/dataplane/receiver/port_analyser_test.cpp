// A port's analyser on a ring device: nothing is allocated once it runs, and tags are its own.
#include "dataplane/receiver/port/port_analyser.h"

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/dpdk/eal.h"
#include "dataplane/streams/test_frame.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"
#include "protocols/wire/word_sum.h"
#include "tests/support/allocations.h"

namespace tiercast::receiver {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kSource = 0x0a090002, kOwn = 0x0a09000f;
constexpr std::uint32_t kGroups = 0xefc00000;  // 239.192.0.0
const agent::MacAddress kOther = agent::parse_mac("02:00:00:00:00:02", "");

// A device whose frames a test puts into a ring, and whose answers it takes from another.
class RingPort {
 public:
  RingPort() {
    static const dpdk::Eal eal("port_analyser_test", {"--no-huge", "--no-shconf", "--no-pci",
                                                      "--no-telemetry", "-m", "64"});
    in_ = rte_ring_create("in", 256, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    out_ = rte_ring_create("out", 256, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    pool_ = rte_pktmbuf_pool_create("frames", 1023, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    static int made = 0;
    const std::string name = "test" + std::to_string(made++) + "-";
    rte_ring* ins[] = {in_};
    rte_ring* outs[] = {out_};
    const int id = rte_eth_from_rings(name.c_str(), ins, 1, outs, 1, 0);
    if (pool_ == nullptr || id < 0) throw std::runtime_error("no ring device");
    dpdk::PortNeeds needs;
    needs.name = name;
    port_ = std::make_unique<dpdk::Port>(static_cast<std::uint16_t>(id), needs);
  }
  ~RingPort() {
    port_.reset();
    rte_ring_free(in_);
    rte_ring_free(out_);
    rte_mempool_free(pool_);
  }
  RingPort(const RingPort&) = delete;
  RingPort& operator=(const RingPort&) = delete;
  dpdk::Port& port() { return *port_; }

  void put(const Bytes& frame) {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_);
    ASSERT_NE(mbuf, nullptr);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size())), frame.data(),
                frame.size());
    ASSERT_EQ(rte_ring_enqueue(in_, mbuf), 0);
  }
  // The number of frames that were sent, which are freed; `last`: a copy of the last one.
  unsigned take(std::array<std::byte, 128>* last = nullptr) {
    unsigned count = 0;
    for (void* one = nullptr; rte_ring_dequeue(out_, &one) == 0; ++count) {
      auto* const mbuf = static_cast<rte_mbuf*>(one);
      if (last != nullptr) {
        std::memcpy(last->data(), rte_pktmbuf_mtod(mbuf, const void*),
                    std::min<std::size_t>(last->size(), rte_pktmbuf_data_len(mbuf)));
      }
      rte_pktmbuf_free(mbuf);
    }
    return count;
  }

 private:
  rte_ring *in_ = nullptr, *out_ = nullptr;
  rte_mempool* pool_ = nullptr;
  std::unique_ptr<dpdk::Port> port_;
};

Bytes data(std::uint32_t group, std::uint32_t seq, std::int64_t now_ns) {
  static const streams::TestFrame frame(kSource, kOther, 100, 0);
  Bytes out(frame.bytes());
  frame.write(out.data(), group, wire::multicast_mac(group), seq, now_ns);
  return out;
}

Bytes arp_request() {
  Bytes out(60);
  std::fill_n(out.begin(), 6, std::byte{0xff});
  std::copy(kOther.begin(), kOther.end(), out.begin() + 6);
  const std::span<std::byte> at(out);
  for (const auto& [offset, value] :
       {std::pair{12, 0x0806}, {14, 1}, {16, 0x0800}, {18, 0x0604}, {20, 1}}) {
    wire::put16(at, static_cast<std::size_t>(offset), static_cast<std::uint16_t>(value));
  }
  std::copy(kOther.begin(), kOther.end(), out.begin() + 22);
  wire::put32(at, 28, kSource);
  wire::put32(at, 38, kOwn);
  return out;
}

// A general query of IGMP version 3, to be answered within a tenth of a second.
Bytes query() {
  Bytes out(60);
  const std::span<std::byte> at(out);
  const agent::MacAddress all = wire::multicast_mac(0xe0000001);
  std::copy(all.begin(), all.end(), out.begin());
  wire::put16(at, 12, 0x0800);
  wire::put32(at, 14, 0x45000020);
  wire::put32(at, 22, 0x01020000);  // TTL 1, IGMP
  wire::put32(at, 26, kSource);
  wire::put32(at, 30, 0xe0000001);
  const std::uint16_t ip = static_cast<std::uint16_t>(~wire::fold(wire::sum_words(&out[14], 20)));
  std::memcpy(&out[24], &ip, 2);
  wire::put32(at, 34, 0x11010000);
  wire::put32(at, 42, 0x027d0000);
  const auto igmp = static_cast<std::uint16_t>(~wire::fold(wire::sum_words(&out[34], 12)));
  std::memcpy(&out[36], &igmp, 2);
  return out;
}

Bytes tagged(const Bytes& frame, std::uint16_t id) {
  Bytes out(dpdk::kVlanBytes);
  out.insert(out.end(), frame.begin(), frame.end());
  dpdk::insert_tag(dpdk::Vlan{id, 3}, out);
  return out;
}

TEST(ReceiverPort, AllocatesNothingOnceItRuns) {
  RingPort ring;
  const dpdk::TscClock clock;
  PortAnalyser::Settings settings;
  settings.own = {ring.port().mac(), kOwn};
  settings.any = true;
  settings.streams = 100;
  for (std::uint32_t i = 0; i < 10; ++i) settings.join.push_back({kGroups + i, kSource});
  PortAnalyser analyser(std::move(settings), ring.port());
  analyser.start(clock.now());

  // Streams with lost, doubled, reordered and stale packets and restarts; streams that have no
  // room; every other fate; queries, whose answers fall due meanwhile.
  std::uint32_t sent = 0, answers = 0;
  const Bytes broken = [] {
    Bytes out = data(kGroups, 1, 0);
    out[70] ^= std::byte{1};
    return out;
  }();
  const Bytes foreign(60), arp = arp_request(), asked = query();
  // Returns the allocations of poll(): the frames themselves are made without counting.
  const auto run = [&](std::uint32_t rounds) {
    std::size_t during = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::int64_t now = clock.now().ns();
      for (std::uint32_t i = 0; i < 24; ++i, ++sent) {
        std::uint32_t seq = sent;
        if (i == 5) seq -= 700;
        if (i == 6) seq -= 300'000'000;
        if (i == 7) seq += 40;
        ring.put(data(kGroups + (sent * 7 + round) % 150, seq, i == 8 ? now + 1'000'000'000 : now));
      }
      for (const Bytes* one : {&broken, &foreign, &arp}) ring.put(*one);
      if (round % 16 == 0) ring.put(asked);
      const CountAllocations counting;
      const std::size_t before = allocations().count;
      while (analyser.poll(clock) > 0) {
      }
      during += allocations().count - before;
      answers += ring.take();
    }
    return during;
  };
  run(3000);
  EXPECT_EQ(run(5000), 0u);
  EXPECT_EQ(analyser.streams().size(), 100u);
  for (const Fate fate : {Fate::kData, Fate::kQuery, Fate::kAnswered, Fate::kForeign,
                          Fate::kMalformed, Fate::kNoRoom}) {
    EXPECT_GT(analyser.fate(fate), 0u) << name(fate);
  }
  EXPECT_GT(analyser.igmp_sent(), 0u);
  EXPECT_GT(answers, 8000u);  // to ARP alone, one a round
}

TEST(ReceiverPort, FramesOfItsVlanCountAndAnswersAreTagged) {
  RingPort ring;
  const dpdk::TscClock clock;
  PortAnalyser::Settings settings;
  settings.own = {ring.port().mac(), kOwn};
  settings.vlan = dpdk::Vlan{100, 5};
  settings.join = {{kGroups, kSource}};
  PortAnalyser analyser(std::move(settings), ring.port());
  ring.put(tagged(data(kGroups, 0, 0), 100));
  ring.put(tagged(data(kGroups, 1, 0), 101));
  ring.put(data(kGroups, 1, 0));
  ring.put(arp_request());
  ring.put(tagged(data(kGroups, 2, 0), 100));
  while (analyser.poll(clock) > 0) {
  }
  EXPECT_EQ(analyser.fate(Fate::kData), 2u);
  EXPECT_EQ(analyser.fate(Fate::kForeign), 3u);
  EXPECT_EQ(analyser.streams()[0].sequence.lost(), 1u);
  EXPECT_EQ(ring.take(), 0u);  // the request had no tag
  ring.put(tagged(arp_request(), 100));
  while (analyser.poll(clock) > 0) {
  }
  std::array<std::byte, 128> reply{};
  ASSERT_EQ(ring.take(&reply), 1u);
  EXPECT_EQ(wire::get16(reply, 12), dpdk::kEtherTypeVlan);
  EXPECT_EQ(wire::get16(reply, 14), 5 << 13 | 100);
  EXPECT_EQ(wire::get16(reply, 16), 0x0806);
  EXPECT_EQ(wire::get16(reply, 24), 2);  // of ARP: a reply
}

}  // namespace
}  // namespace tiercast::receiver
