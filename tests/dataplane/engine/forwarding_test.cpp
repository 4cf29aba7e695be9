// A packet's paths through v1model: tables, checksums, replication, CPU port, clones, second
// passes.
#include <gmock/gmock.h>

#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::uint16_t checksum(const Frame& frame, std::size_t from, std::size_t bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += 2)
    sum += static_cast<std::uint32_t>(number_at(frame, from + i, 2));
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

struct Ipv4 {
  std::uint32_t source = 0x0a000001, destination = 0x0a000002;
  unsigned ttl = 64, protocol = 17, length = 100;
};
constexpr std::size_t kIp = 14;

Frame ipv4(const Ipv4& p) {
  Frame frame = FrameBuilder()
                    .put(0x020000000009, 48)
                    .put(0x020000000008, 48)
                    .put(0x0800, 16)
                    .put(0x4500, 16)
                    .put(p.length - kIp, 16)
                    .put(0x1234, 16)
                    .put(0, 16)
                    .put(p.ttl, 8)
                    .put(p.protocol, 8)
                    .put(0, 16)
                    .put(p.source, 32)
                    .put(p.destination, 32)
                    .pad_to(p.length)
                    .take();
  const std::uint16_t sum = checksum(frame, kIp, 20);
  frame[kIp + 10] = static_cast<std::byte>(sum >> 8);
  frame[kIp + 11] = static_cast<std::byte>(sum & 0xff);
  return frame;
}

class Router : public ::testing::Test {
 protected:
  Router() {
    add("MyIngress.host", FieldMatch::exact(big_endian(0x0a000002, 4)), forward(2));
    add("MyIngress.host", FieldMatch::exact(big_endian(0xefc00001, 4)),
        {"MyIngress.replicate", {big_endian(7, 2)}});
    add("MyIngress.route", FieldMatch::lpm(big_endian(0x0b000000, 4), 8), forward(3));
    add("MyIngress.route", FieldMatch::lpm(big_endian(0x0b010000, 4), 16), forward(4));
  }
  void add(const char* table, FieldMatch match, ActionCall action) {
    EXPECT_OK(bench.sw.insert_entry(table, {{std::move(match)}, 0, std::move(action), {}}));
  }
  static ActionCall forward(unsigned port) {
    return {"MyIngress.forward", {big_endian(port, 2), big_endian(0x020000000100 + port, 6)}};
  }
  Bench bench{"router"};
};

TEST_F(Router, ForwardsByExactThenLongestPrefix) {
  bench.receive(1, ipv4({}));
  bench.receive(1, ipv4({.destination = 0x0b020304}));
  bench.receive(1, ipv4({.destination = 0x0b010304}));
  bench.receive(1, ipv4({.destination = 0x0c000000}));
  EXPECT_THAT(bench.out.ports(), ElementsAre(2, 3, 4));
  EXPECT_EQ(bench.sw.switch_stats().ingress_dropped_packets, 1u);
  const auto hits = bench.sw.read_entry(
      "MyIngress.route", {{FieldMatch::lpm(big_endian(0x0b010000, 4), 16)}, 0, {}, {}});
  EXPECT_EQ(*hits->counter, (CounterValue{1, 100}));
  EXPECT_EQ(*bench.sw.read_counter("MyIngress.by_port", 1), (CounterValue{4, 400}));
  EXPECT_EQ(*bench.sw.read_register("MyIngress.last_source", 1), big_endian(0x0a000001, 4));
}

TEST_F(Router, RewritesAndUpdatesTheChecksum) {
  const Frame sent = ipv4({});
  bench.receive(1, sent);
  ASSERT_EQ(bench.out.sent.size(), 1u);
  const Frame& got = bench.out.sent[0].frame;
  Frame wanted = sent;
  for (unsigned i = 0; i < 6; ++i)
    wanted[i] = static_cast<std::byte>(0x020000000102 >> (40 - 8 * i));
  wanted[kIp + 8] = std::byte{63};
  wanted[kIp + 10] = wanted[kIp + 11] = std::byte{0};
  const std::uint16_t sum = checksum(wanted, kIp, 20);
  wanted[kIp + 10] = static_cast<std::byte>(sum >> 8);
  wanted[kIp + 11] = static_cast<std::byte>(sum & 0xff);
  EXPECT_EQ(got, wanted);
}

// Wherever a list of inputs names the payload, it comes last, and is what the parser left: no
// header, although here all of ipv4 follows the header named before it.
TEST(Checksum, CoversTheInputsAndThenThePayload) {
  const std::string text = with(program_text("router"), R"("input" : [)",
                                R"("input" : [
    {"type": "field", "value": ["ethernet", "type"]}, {"type": "payload"},)");
  Bench bench(Program::load(text, "router.json"));
  EXPECT_OK(bench.sw.insert_entry(
      "MyIngress.host", {{FieldMatch::exact(big_endian(0x0a000002, 4))},
                         0,
                         {"MyIngress.forward", {big_endian(2, 2), big_endian(0x020000000102, 6)}},
                         {}}));
  bench.receive(1, ipv4({}));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  Frame got = bench.out.sent[0].frame;
  const std::uint64_t sum = number_at(got, kIp + 10, 2);
  got[kIp + 10] = got[kIp + 11] = std::byte{0};
  EXPECT_EQ(sum, checksum(got, kIp - 2, got.size() - (kIp - 2)));
}

TEST_F(Router, DropsAWrongChecksumAndADeadPacket) {
  Frame wrong = ipv4({});
  wrong[kIp + 10] ^= std::byte{1};
  bench.receive(1, wrong);
  bench.receive(1, ipv4({.ttl = 1}));
  EXPECT_TRUE(bench.out.sent.empty());
  EXPECT_EQ(bench.sw.switch_stats().ingress_dropped_packets, 2u);
}

TEST_F(Router, ReplicatesWithInstances) {
  EXPECT_OK(bench.sw.insert_multicast_group(7, {{2, 1}, {4, 10}, {4, 11}, {99, 1}}));
  bench.receive(1, ipv4({.destination = 0xefc00001}));
  EXPECT_THAT(bench.out.ports(), UnorderedElementsAre(2, 4, 4));
  std::vector<std::uint64_t> instances;
  for (const auto& sent : bench.out.sent) {
    instances.push_back(number_at(sent.frame, kIp + 4, 2));
    EXPECT_EQ(checksum(sent.frame, kIp, 20), 0);
  }
  EXPECT_THAT(instances, UnorderedElementsAre(1, 10, 11));
  EXPECT_EQ(bench.sw.switch_stats().no_port_packets, 1u);  // port 99

  EXPECT_OK(bench.sw.modify_multicast_group(7, {}));
  bench.receive(1, ipv4({.destination = 0xefc00001}));
  EXPECT_EQ(bench.out.sent.size(), 3u);
}

TEST_F(Router, ToAndFromTheCpu) {
  const Frame strange = FrameBuilder().put(1, 48).put(2, 48).put(0x0806, 16).pad_to(60).take();
  bench.receive(5, strange);
  ASSERT_EQ(bench.out.punted.size(), 1u);
  EXPECT_TRUE(bench.out.sent.empty());
  EXPECT_EQ(number_at(bench.out.punted[0], 0, 2) >> 7, 5u);
  EXPECT_EQ(Frame(bench.out.punted[0].begin() + 2, bench.out.punted[0].end()), strange);

  Frame from_cpu = FrameBuilder().put(6 << 7, 16).take();
  from_cpu.insert(from_cpu.end(), strange.begin(), strange.end());
  bench.receive(510, from_cpu);
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(bench.out.sent[0].port, 6u);
  EXPECT_EQ(bench.out.sent[0].frame, strange);
}

TEST_F(Router, AParserErrorKeepsTheFrame) {
  Frame cut = ipv4({});
  cut.resize(20);  // within the IPv4 header
  bench.receive(3, cut);
  ASSERT_EQ(bench.out.punted.size(), 1u);
  EXPECT_EQ(Frame(bench.out.punted[0].begin() + 2, bench.out.punted[0].end()), cut);
  Frame version5 = ipv4({});
  version5[kIp] = std::byte{0x55};
  bench.receive(3, version5);
  EXPECT_EQ(bench.out.punted.size(), 2u);
  bench.receive(3, {});  // an empty frame
  EXPECT_EQ(bench.out.punted.size(), 3u);
}

TEST_F(Router, ClonesThePacketAsItCame) {
  EXPECT_OK(bench.sw.insert_entry("MyIngress.mirror", {{FieldMatch::exact(big_endian(1, 2)),
                                                        FieldMatch::exact(big_endian(17, 1))},
                                                       0,
                                                       {"MyIngress.copy_to", {big_endian(3, 4)}},
                                                       {}}));
  bench.receive(1, ipv4({}));
  EXPECT_THAT(bench.out.ports(), ElementsAre(2));  // no such session
  EXPECT_OK(bench.sw.insert_clone_session(3, {{{6, 0}}, 40}));
  bench.out.sent.clear();
  bench.receive(1, ipv4({}));
  EXPECT_THAT(bench.out.ports(), UnorderedElementsAre(6, 2));
  const Frame& copy = bench.out.sent[bench.out.sent[0].port == 6 ? 0 : 1].frame;
  EXPECT_EQ(copy.size(), 40u);
  EXPECT_EQ(number_at(copy, kIp + 8, 1), 64u);  // ttl before ingress
  EXPECT_EQ(number_at(copy, kIp + 1, 1), 7u);   // the field that the list carries
}

TEST_F(Router, PortsThatDoNotExist) {
  bench.receive(100, ipv4({}));
  EXPECT_EQ(bench.sw.switch_stats().no_port_packets, 1u);
  EXPECT_OK(bench.sw.remove_port(2));
  bench.receive(1, ipv4({}));
  EXPECT_EQ(bench.sw.switch_stats().no_port_packets, 2u);
  bench.receive(1, Frame(65536));
  EXPECT_EQ(bench.sw.switch_stats().oversize_packets, 1u);
  EXPECT_TRUE(bench.out.sent.empty());
}

// again.p4: command, rounds, seen, type.
Frame step(unsigned command, unsigned rounds) {
  return FrameBuilder().put(command, 8).put(rounds, 8).put(0, 16).put(0xabcdef, 24).take();
}

TEST(SecondPass, ResubmissionKeepsTheListedFieldsOnly) {
  Bench bench("again");
  bench.receive(1, step(1, 3));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 2, 1), 0x30u);
}

TEST(SecondPass, RecirculationParsesTheFrameAnew) {
  Bench bench("again");
  bench.receive(1, step(2, 4));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 1, 1), 0u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 2, 1), 0x40u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 4, 3), 0xabcdefu);
}

TEST(SecondPass, ALoopEnds) {
  Bench bench("again");
  bench.receive(1, step(2, 200));
  bench.receive(1, step(1, 200));
  EXPECT_TRUE(bench.out.sent.empty());
  EXPECT_EQ(bench.sw.switch_stats().recirculation_limit_packets, 2u);
}

TEST(SecondPass, ClonesOutOfEgress) {
  Bench bench("again");
  EXPECT_OK(bench.sw.insert_clone_session(5, {{{3, 0}, {1, 0}}, 0}));
  bench.receive(1, step(3, 0));
  EXPECT_THAT(bench.out.ports(), UnorderedElementsAre(1, 1, 3));
  unsigned clones = 0;
  for (const auto& sent : bench.out.sent) {
    if (number_at(sent.frame, 3, 1) != 2) continue;
    ++clones;
    EXPECT_EQ(number_at(sent.frame, 2, 1), 9u);
  }
  EXPECT_EQ(clones, 2u);
}

TEST(SecondPass, Truncation) {
  Bench bench("again");
  bench.receive(1, step(4, 0));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(bench.out.sent[0].frame.size(), 6u);
}

// As in bmv2's Packet::truncate().
TEST(SecondPass, TheShortestTruncationCounts) {
  // again.p4 truncates to 6 bytes. Here it truncates before, or only, to `other`.
  const auto size_with = [](const std::string& other, bool only) {
    const std::string six = R"({
          "op" : "truncate",
          "parameters" : [
            {
              "type" : "hexstr",
              "value" : "0x00000006")";
    std::string changed = six;
    changed.replace(changed.size() - 2, 1, other);
    if (!only) changed += "} ] }, " + six;
    Bench bench(Program::load(with(program_text("again"), six, changed), "again.json"));
    bench.receive(1, step(4, 0));
    return bench.out.sent.at(0).frame.size();
  };
  EXPECT_EQ(size_with("4", true), 4u);
  EXPECT_EQ(size_with("4", false), 4u);
  EXPECT_EQ(size_with("7", false), 6u);
  EXPECT_EQ(size_with("0", true), 0u);
}

TEST(Parser, VerifyRejectsWithoutAnErrorToo) {
  // Both conditions fail for 0xff: the first without an error, the second with NoMatch (port 4).
  std::string text = with(program_text("verify"), R"("value" : "0x7")", R"("value" : "0x0")");
  text = with(text, R"("value" : "0x00")", R"("value" : "0xff")");
  Bench bench(Program::load(text, "verify.json"));
  bench.receive(1, FrameBuilder().put(0xff, 8).take());
  EXPECT_THAT(bench.out.ports(), ElementsAre(2));
}

// Lends one piece of memory, again and again.
struct OneLoan : FrameLender {
  void take_back(void* handle) override {
    EXPECT_EQ(handle, this);
    ++back;
  }
  LentFrame lend(const Frame& frame) {
    memory = frame;
    memory.resize(frame.size() + 8);
    return {{memory.data(), frame.size()}, this, this};
  }
  Frame memory;
  unsigned back = 0;
};

TEST_F(Router, GivesLentMemoryBack) {
  OneLoan loan;
  bench.sw.receive(1, loan.lend(ipv4({})), 0);
  EXPECT_EQ(loan.back, 1u) << "sent: this output copies it";
  EXPECT_EQ(bench.out.sent.at(0).frame.size(), 100u);
  bench.sw.receive(1, loan.lend(ipv4({.destination = 0x0c000000})), 1);
  EXPECT_EQ(loan.back, 2u) << "dropped by the program";
  bench.sw.receive(9, loan.lend(ipv4({})), 2);
  EXPECT_EQ(loan.back, 3u) << "no such port";
  EXPECT_OK(bench.sw.set_port(2, {.rate_bps = 1e6}, 3));
  bench.sw.receive(1, loan.lend(ipv4({})), 3);
  EXPECT_EQ(loan.back, 3u) << "in service";
  bench.sw.set_program(load_program("router"));
  EXPECT_EQ(loan.back, 4u) << "lost with the program";
}

}  // namespace
}  // namespace tiercast::engine
