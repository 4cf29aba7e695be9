// MLDA's rules one by one: LDA+, layers, subintervals, waits, packet pairs, round-trip times, and
// the wire format. Vectors: PROTOCOLS 7.2, 7.5 and 13.1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "protocols/base/rng.h"
#include "protocols/common/exponential_timer.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/core/registry.h"
#include "protocols/schemes/mlda/layering.h"
#include "protocols/schemes/mlda/lda_plus.h"
#include "protocols/schemes/mlda/messages.h"
#include "protocols/schemes/mlda/packet_pair.h"
#include "protocols/schemes/mlda/rtt_tracker.h"
#include "protocols/schemes/mlda/settings.h"

namespace tiercast::mlda {
namespace {

constexpr double kExact = 1e-3;  // relative, PROTOCOLS 13.1

Rate kbit(double v) { return Rate::kbit_per_second(v); }
double in_kbit(Rate rate) { return rate.bits_per_second() / 1000; }

LdaPlus::Path path(double interval_s, double loss = 0) {
  LdaPlus::Path path;
  path.loss = loss;
  path.rtt = Duration::milliseconds(200);
  path.bottleneck = kbit(1000);
  path.packet_size = 1000;
  path.interval = Duration::seconds(interval_s);
  return path;
}

TEST(MldaLdaPlus, AddsTheLeastOfItsThreeIncreases) {
  LdaPlus a(kbit(10));
  EXPECT_NEAR(in_kbit(a.adapt(kbit(500), path(5))), 515, kExact * 515);
  EXPECT_NEAR(in_kbit(a.increase()), 15, kExact * 15);
  LdaPlus b(kbit(10));
  EXPECT_NEAR(in_kbit(b.adapt(kbit(900), path(5))), 911, kExact * 911);
  LdaPlus c(kbit(5));
  EXPECT_NEAR(in_kbit(c.adapt(kbit(100), path(10))), 109.5, kExact * 109.5);
  // A_exp: 196.7 at r = 500, 85.6 at 900, 59.3 at 100 kbit/s.
  LdaPlus d(kbit(1000));
  EXPECT_NEAR(in_kbit(d.adapt(kbit(500), path(5))), 696.7, kExact * 696.7);
  LdaPlus e(kbit(1000));
  EXPECT_NEAR(in_kbit(e.adapt(kbit(900), path(5))), 985.6, kExact * 985.6);
  LdaPlus f(kbit(1000));
  EXPECT_NEAR(in_kbit(f.adapt(kbit(100), path(10))), 159.3, kExact * 159.3);
  // A_TCP: 520 for T = 5 s. R is far away, so that the other bounds are larger.
  LdaPlus g(kbit(1e6));
  LdaPlus::Path wide = path(5);
  wide.bottleneck = kbit(1e9);
  EXPECT_NEAR(in_kbit(g.adapt(kbit(5000), wide)), 5520, kExact * 520);
  wide.interval = Duration::seconds(10);
  EXPECT_NEAR(in_kbit(g.adapt(kbit(5000), wide)), 6020, kExact * 1020);
}

TEST(MldaLdaPlus, LossTakesTheSquareRootAndNoLessThanTcp) {
  const struct {
    double loss, factor;
  } vectors[] = {{0.01, 0.9}, {0.04, 0.8}, {0.1, 0.684}};
  for (const auto& [loss, factor] : vectors) {
    LdaPlus lda(kbit(10));
    const Rate fast = kbit(100'000);  // far above TCP's
    EXPECT_NEAR(lda.adapt(fast, path(10, loss)) / fast, factor, kExact * factor);
    TcpPath tcp;
    tcp.rtt = Duration::milliseconds(200);
    tcp.timeout = tcp.rtt * 4;
    EXPECT_EQ(lda.adapt(kbit(1), path(10, loss)), tcp_throughput(tcp, loss));
  }
}

TEST(MldaLdaPlus, LossForgetsTheGrownIncrease) {
  LdaPlus lda(kbit(10));
  for (int i = 0; i < 5; ++i) lda.adapt(kbit(100), path(10));
  EXPECT_GT(in_kbit(lda.increase()), 200);
  lda.adapt(kbit(100), path(10, 0.01));
  EXPECT_EQ(lda.increase(), kbit(10));
}

TEST(MldaLdaPlus, StandsStillAtTheBottleneckAndNeverFallsWithoutLoss) {
  for (const double r : {1000.0, 1500.0, 1e6}) {
    LdaPlus lda(kbit(10));
    EXPECT_EQ(in_kbit(lda.adapt(kbit(r), path(10))), r);
    EXPECT_EQ(lda.increase(), kbit(10));
  }
}

TEST(MldaLdaPlus, DoublesWhereTheBottleneckIsNotKnown) {
  LdaPlus lda(kbit(10));
  LdaPlus::Path unknown = path(10);
  unknown.bottleneck = Rate::bytes_per_second(std::numeric_limits<double>::infinity());
  EXPECT_NEAR(in_kbit(lda.adapt(kbit(100), unknown)), 120, kExact * 120);
  EXPECT_NEAR(in_kbit(lda.adapt(kbit(120), unknown)), 160, kExact * 160);
}

TEST(MldaLayering, DividesTheRangeOfTheReports) {
  // (0.9 * 1000 - 200) / 2 = 350.
  const Layering three = divide(kbit(200), kbit(1000), 0.9, 3, kbit(20));
  ASSERT_EQ(three.count, 3u);
  EXPECT_NEAR(in_kbit(three.rate[0]), 200, 1e-9);
  EXPECT_NEAR(in_kbit(three.rate[1]), 350, 1e-9);
  EXPECT_NEAR(in_kbit(three.rate[2]), 350, 1e-9);
  EXPECT_NEAR(in_kbit(three.cumulative(3)), 900, 1e-9);
  EXPECT_EQ(three.rate[3], Rate::zero());
  // 30 kbit/s above the base layer give one layer of at least 20, not two.
  EXPECT_EQ(divide(kbit(60), kbit(100), 0.9, 3, kbit(20)).count, 2u);
  // alpha r_max < r_min: the formula as printed would be negative.
  EXPECT_EQ(divide(kbit(95), kbit(100), 0.9, 3, kbit(20)).count, 1u);
  EXPECT_EQ(divide(kbit(20), kbit(1e7), 0.9, 1, kbit(20)).count, 1u);
  EXPECT_EQ(divide(kbit(20), kbit(1e7), 0.9, kMaxLayers, kbit(20)).count, kMaxLayers);
}

TEST(MldaSubintervals, CountAndBoundsAreThePapers) {
  EXPECT_EQ(Subintervals(kbit(20), kbit(10'000), 0.1).count(), 66u);
  EXPECT_EQ(Subintervals(kbit(20), kbit(10'000), 0.05).count(), 128u);
  EXPECT_EQ(Subintervals(kbit(20), kbit(10'000), 0.2).count(), 35u);
  const Subintervals s(kbit(20), kbit(10'000), 0.1);
  EXPECT_EQ(s.of(Rate::zero()), 0u);
  EXPECT_EQ(s.of(kbit(20)), 0u);
  EXPECT_EQ(s.of(kbit(21.99)), 0u);
  EXPECT_EQ(s.of(kbit(22.01)), 1u);
  EXPECT_EQ(s.of(kbit(10'000)), 65u);
  EXPECT_EQ(s.of(kbit(1e9)), 65u);
  EXPECT_EQ(s.of(Rate::bytes_per_second(std::numeric_limits<double>::quiet_NaN())), 0u);
}

TEST(MldaWait, QuantilesOfTheTruncatedExponential) {
  const struct {
    double u, seconds;
  } vectors[] = {{0.01, 0.810}, {0.1, 1.155}, {0.5, 1.396}, {0.9, 1.484}};
  for (const auto& [u, seconds] : vectors) {
    EXPECT_NEAR(exponential_wait(Duration::seconds(1.5), 10, u).seconds(), seconds, 0.01 * seconds);
  }
}

TEST(MldaSettings, TheBudgetOfObservationIsSevenSeconds) {
  SessionConfig config;
  config.parameters = Parameters(parameter_list());
  EXPECT_EQ(observation_budget(config.parameters), Duration::seconds(7));
  const struct {
    unsigned layers, max_layers;
    double observation;
  } vectors[] = {{1, 1, 7}, {2, 2, 3.5}, {3, 3, 7.0 / 3}, {4, 4, 1.75}, {5, 4, 1.75}, {8, 4, 1.75}};
  for (const auto& [layers, max_layers, observation] : vectors) {
    config.layers = layers;
    const Settings settings = Settings::from(config);
    EXPECT_EQ(settings.max_layers, max_layers) << layers;
    EXPECT_NEAR(settings.observation.seconds(), observation, 1e-6) << layers;
  }
}

std::string error_of(const std::string& assignment) {
  SessionConfig config;
  config.parameters = Parameters(parameter_list());
  try {
    config.parameters.set(assignment);
    Settings::from(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(MldaSettings, WhatDoesNotFitIsRefusedByName) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("mlda.control_interval=3"), HasSubstr("mlda.observation"));
  EXPECT_THAT(error_of("mlda.min_rate=200kbit/s"), HasSubstr("mlda.initial_rate"));
  EXPECT_THAT(error_of("mlda.sigma=1"), HasSubstr("mlda.sigma"));
  EXPECT_EQ(error_of("mlda.control_interval=20"), "");
}

TEST(MldaPacketPair, TakesTheSamplesThatMostAgreeOn) {
  PacketPair pairs(100, 0.1);
  EXPECT_EQ(pairs.estimate(), Rate::zero());
  Rng rng(1);
  Time now;
  std::uint32_t seq = 0xfffffff0;  // wraps on the way
  for (int i = 0; i < 60; ++i) {
    now = now + Duration::seconds(1);
    pairs.receive(now, seq++, 1, 1000);
    // 1000 B at 1 Mbit/s take 8 ms. A third of the pairs has another packet in between.
    const double between = i % 3 == 0 ? 8e-3 + 12e-3 * rng.uniform() : 8e-3;
    now = now + Duration::seconds(between);
    pairs.receive(now, seq++, 2, 1000);
    now = now + Duration::milliseconds(100);
    pairs.receive(now, seq++, 0, 1000);
  }
  EXPECT_EQ(pairs.samples(), 60u);
  EXPECT_NEAR(pairs.estimate().mbit_per_second(), 1, 0.02);
}

TEST(MldaPacketPair, BrokenPairsSayNothing) {
  PacketPair pairs(100, 0.1);
  const auto at = [](double ms) { return Time::zero() + Duration::seconds(ms * 1e-3); };
  pairs.receive(at(1), 10, 1, 1000);
  pairs.receive(at(2), 12, 2, 1000);  // 11 lost
  pairs.receive(at(3), 20, 1, 1000);
  pairs.receive(at(4), 19, 0, 1000);  // reordered in between
  pairs.receive(at(5), 21, 2, 1000);
  pairs.receive(at(6), 31, 2, 1000);  // the first was lost
  pairs.receive(at(7), 41, 1, 1000);
  pairs.receive(at(7), 42, 2, 1000);  // at the same instant
  EXPECT_EQ(pairs.samples(), 0u);
}

TEST(MldaPacketPair, TheOldestSampleIsReplaced) {
  PacketPair pairs(10, 0.1);
  Time now;
  for (std::uint32_t i = 0; i < 30; ++i) {
    now = now + Duration::seconds(1);
    pairs.receive(now, 2 * i, 1, 1000);
    now = now + Duration::milliseconds(i < 20 ? 8 : 4);
    pairs.receive(now, 2 * i + 1, 2, 1000);
  }
  EXPECT_EQ(pairs.samples(), 10u);
  EXPECT_NEAR(pairs.estimate().mbit_per_second(), 2, 1e-6);
}

// The forward delay rises from 50 to 150 ms. The clocks are 1000 s apart and wrap.
TEST(MldaRtt, FollowsTheOneWayDelayBetweenMeasurements) {
  RttTracker rtt(0.5, 0.05);
  EXPECT_FALSE(rtt.valid());
  const std::uint32_t offset = 0xfffffff0u - 50'000;
  rtt.measured(Time::zero(), Duration::milliseconds(120), offset + 50'000);
  EXPECT_EQ(rtt.rtt(), Duration::milliseconds(120));
  for (int i = 0; i < 200; ++i) rtt.packet(offset + 150'000);
  EXPECT_NEAR(rtt.rtt().seconds(), 0.220, 1e-3);
  // The next sample has weight one half.
  rtt.measured(Time::zero() + Duration::seconds(10), Duration::milliseconds(200), offset + 150'000);
  EXPECT_NEAR(rtt.rtt().seconds(), 0.210, 1e-3);
}

TEST(MldaRtt, ForgedStampsStayWithinBounds) {
  RttTracker rtt(0.5, 0.05);
  rtt.measured(Time::zero(), Duration::seconds(1e6), 0);
  EXPECT_EQ(rtt.rtt(), kMaxRtt);
  for (int i = 0; i < 1000; ++i) rtt.packet(0x80000000u);
  EXPECT_GE(rtt.rtt(), kMinRtt);
  rtt.measured(Time::zero(), Duration::seconds(-5), 0);
  EXPECT_GE(rtt.rtt(), kMinRtt);
}

}  // namespace
}  // namespace tiercast::mlda

namespace tiercast::wire {
namespace {

template <class Message>
class MldaWire : public testing::Test {};

template <class Message>
Message example();
template <>
MldaData example() {
  return {.session = 9, .rank = 2, .pair = 1, .seq = 0xfffffffe, .tx_time_us = 0x01020304};
}
template <>
MldaSenderReport example() {
  MldaSenderReport report;
  report.session = 9;
  report.record_count = 3;
  report.sr_seq = 7;
  report.tx_time_us = 8;
  report.max_rtt_us = 9;
  report.rate = {1, 2, 0xffffffff};
  return report;
}
template <>
MldaReceiverReport example() {
  return {9, 1, true, 0x0a000001, 7, 50'000, 0x12345678, 100'000, 0xffffffff};
}
template <>
MldaReflection example() {
  return {9, 1, true, 0x0a000001, 7, 50'000, 3, 4};
}

using Messages = testing::Types<MldaData, MldaSenderReport, MldaReceiverReport, MldaReflection>;
TYPED_TEST_SUITE(MldaWire, Messages);

TYPED_TEST(MldaWire, WhatIsWrittenIsRead) {
  std::array<std::byte, 128> bytes;
  const std::size_t length = write(example<TypeParam>(), bytes);
  ASSERT_GT(length, 0u);
  TypeParam read;
  ASSERT_EQ(name(parse({bytes.data(), length}, read)), "ok");
  std::array<std::byte, 128> again;
  again.fill(std::byte{0xee});
  ASSERT_EQ(write(read, again), length);
  EXPECT_TRUE(std::equal(again.begin(), again.begin() + length, bytes.begin()));
  EXPECT_EQ(write(example<TypeParam>(), std::span(bytes).first(length - 1)), 0u);
}

TYPED_TEST(MldaWire, EveryTruncationIsRefused) {
  std::array<std::byte, 128> bytes;
  const std::size_t length = write(example<TypeParam>(), bytes);
  TypeParam read;
  for (std::size_t cut = 0; cut < length; ++cut) {
    EXPECT_EQ(name(parse({bytes.data(), cut}, read)), "short") << cut;
  }
}

// A message that is accepted can be written back to the same bytes: no field has a second form.
TYPED_TEST(MldaWire, AMutationIsRefusedOrReadAsItStands) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::array<std::byte, 128> bytes;
    const std::size_t length = write(example<TypeParam>(), bytes);
    for (std::size_t n = 1 + rng.below(3); n > 0; --n) {
      bytes[rng.below(length)] = static_cast<std::byte>(rng.next());
    }
    TypeParam read;
    if (parse({bytes.data(), length}, read) != Error::kOk) continue;
    std::array<std::byte, 128> again;
    ASSERT_EQ(write(read, again), length);
    ASSERT_TRUE(std::equal(again.begin(), again.begin() + length, bytes.begin()));
  }
}

template <class Message>
std::string_view error_with(std::size_t at, std::uint8_t value, std::size_t more = 0) {
  std::array<std::byte, 128> bytes{};
  const std::size_t length = write(example<Message>(), bytes);
  bytes[at] = static_cast<std::byte>(value);
  Message read;
  return name(parse({bytes.data(), length + more}, read));
}

TEST(MldaWireErrors, NameTheFirstCheckThatFails) {
  EXPECT_EQ(error_with<MldaData>(1, 2), "type");
  EXPECT_EQ(error_with<MldaData>(2, 1), "scheme");
  EXPECT_EQ(error_with<MldaData>(3, 1), "flags");
  EXPECT_EQ(error_with<MldaData>(5, 24), "length");
  EXPECT_EQ(error_with<MldaData>(8, 8), "rank");
  EXPECT_EQ(error_with<MldaData>(9, 3), "reserved");
  EXPECT_EQ(error_with<MldaData>(10, 1), "reserved");
  EXPECT_EQ(error_with<MldaData>(1, 1, 4), "ok");  // payload
  EXPECT_EQ(error_with<MldaSenderReport>(8, 2), "type");
  EXPECT_EQ(error_with<MldaSenderReport>(8, 3), "type");
  EXPECT_EQ(error_with<MldaSenderReport>(9, 0), "record_count");
  EXPECT_EQ(error_with<MldaSenderReport>(9, 9), "record_count");
  EXPECT_EQ(error_with<MldaSenderReport>(9, 2), "length");
  EXPECT_EQ(error_with<MldaSenderReport>(10, 1), "reserved");
  EXPECT_EQ(error_with<MldaSenderReport>(27, 0), "record");  // a layer of rate 0
  EXPECT_EQ(error_with<MldaSenderReport>(1, 3, 1), "length");
  EXPECT_EQ(error_with<MldaReceiverReport>(8, 8), "rank");
  EXPECT_EQ(error_with<MldaReceiverReport>(9, 2), "reserved");
  EXPECT_EQ(error_with<MldaReceiverReport>(1, 2, 1), "length");
  EXPECT_EQ(error_with<MldaReflection>(8, 1), "type");
  EXPECT_EQ(error_with<MldaReflection>(9, 8), "rank");
  EXPECT_EQ(error_with<MldaReflection>(10, 2), "reserved");
  EXPECT_EQ(error_with<MldaReflection>(1, 3, 1), "length");
}

}  // namespace
}  // namespace tiercast::wire
