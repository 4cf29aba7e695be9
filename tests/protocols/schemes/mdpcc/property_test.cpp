// MDP-CC with noise, forgeries, members that come and go, and numbers that wrap. It never crashes,
// no rate is negative, NaN or above the cap, and no session stands still.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/registry.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/testkit/hosts.h"
#include "tests/protocols/rigs/impairment.h"

namespace tiercast::testkit {
namespace {

constexpr double kCap = 2.5e6;  // bytes/s: 20 Mbit/s

// Records what a core sends, and checks it.
class Watch : public Sink {
 public:
  void send(Destination, std::span<const std::byte> message) override {
    sent.assign(message.begin(), message.end());
  }
  void join(Rank rank) override { EXPECT_EQ(rank, 0); }
  void leave(Rank rank) override { EXPECT_EQ(rank, 0); }
  void set_rate(Rank layer, Rate r) override {
    EXPECT_EQ(layer, 0);
    EXPECT_GE(r.bytes_per_second(), 0);
    EXPECT_LE(r.bytes_per_second(), kCap * (1 + 1e-9));
  }
  void release(Rank, std::uint32_t) override { ADD_FAILURE(); }
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override {
    EXPECT_LE(offset + bytes.size(), std::uint64_t{1} << 36);
  }
  void trace(std::string_view, std::span<const TraceField> fields) override {
    for (const TraceField& field : fields) EXPECT_TRUE(std::isfinite(field.value)) << field.name;
  }
  std::vector<std::byte> sent;
};

// A valid message of some kind, with random values that keep its structure.
std::vector<std::byte> random_message(Rng& rng, std::uint16_t session) {
  const auto u32 = [&] { return static_cast<std::uint32_t>(rng.next() >> (rng.below(33))); };
  const auto u16 = [&] { return static_cast<std::uint16_t>(rng.next()); };
  std::vector<std::byte> message(1000);
  std::size_t length = 0;
  switch (rng.below(4)) {
    case 0: {
      wire::MdpccData m{session, static_cast<std::uint16_t>(rng.below(3)), 944, u32(), u32(), u32(),
                        u16()};
      if (rng.uniform() < 0.5) m.segment_count = 0;
      if (rng.uniform() < 0.5) {
        m.segment_count = 300;
        m.segment = static_cast<std::uint32_t>(rng.below(300));
        m.payload_length = 944;
      }
      wire::write(m, message);
      length = message.size();
      break;
    }
    case 1: {
      wire::MdpccProbe m;
      m.session = session;
      m.record_count = static_cast<std::uint8_t>(rng.below(6));
      m.probe_seq = u16();
      m.tx_time_us = u32();
      m.grtt_us = u32();
      m.tx_rate = u32();
      m.group_size = u16();
      m.backoff = static_cast<std::uint8_t>(rng.next());
      m.object_id = static_cast<std::uint16_t>(rng.below(3));
      m.segment_size = 944;
      m.segment_count = u32();
      m.next_segment = u32();
      for (auto& r : m.representatives) {
        r = {static_cast<std::uint32_t>(rng.below(4)), u32(), u32(),
             static_cast<std::uint8_t>(rng.next())};
      }
      length = wire::write(m, message);
      break;
    }
    case 2: {
      wire::MdpccReport m;
      m.reflected = rng.uniform() < 0.5;
      m.session = session;
      m.flags = static_cast<std::uint8_t>(rng.next());
      m.probe_seq = u16();
      m.source = static_cast<std::uint32_t>(rng.below(10));
      m.response_us = u32();
      m.loss = u32();
      m.rate = u32();
      m.received_rate = u32();
      m.rtt_us = u32();
      length = wire::write(m, message);
      break;
    }
    default: {
      wire::MdpccNack m;
      m.reflected = rng.uniform() < 0.5;
      m.session = session;
      m.object_id = static_cast<std::uint16_t>(rng.below(3));
      m.source = u32();
      m.record_count = static_cast<std::uint8_t>(rng.below(65));
      std::uint32_t at = u32() / 2;
      for (auto& r : m.segments) {
        r = {at, 1 + static_cast<std::uint32_t>(rng.below(1000))};
        at += r.count + static_cast<std::uint32_t>(rng.below(10));
      }
      length = wire::write(m, message);
    }
  }
  message.resize(length);
  return message;
}

void damage(std::vector<std::byte>& message, Rng& rng) {
  if (message.empty()) return;
  if (rng.uniform() < 0.3) message.resize(rng.below(message.size() + 1));
  for (std::uint64_t n = rng.below(4); n > 0 && !message.empty(); --n) {
    message[rng.below(message.size())] = static_cast<std::byte>(rng.next());
  }
}

template <class CoreType>
void feed_noise(CoreType& core, Watch& sink, Rng& rng, Time now, std::uint16_t session,
                const std::vector<std::byte>& genuine) {
  for (int i = 0; i < 3000; ++i) {
    now = now + Duration::microseconds(static_cast<std::int64_t>(rng.below(20'000)));
    std::vector<std::byte> message;
    if (rng.uniform() < 0.1) {
      message.resize(rng.below(200));
      for (std::byte& b : message) b = static_cast<std::byte>(rng.next());
    } else {
      message = rng.uniform() < 0.2 && !genuine.empty() ? genuine : random_message(rng, session);
      if (rng.uniform() < 0.3) damage(message, rng);
    }
    // Slightly backwards, as receive time stamps may be.
    const Time at = now - Duration::microseconds(static_cast<std::int64_t>(rng.below(2000)));
    core.receive(at,
                 {message, static_cast<std::uint32_t>(message.size() + kIpUdpHeaderBytes),
                  rng.uniform() < 0.1, 9},
                 sink);
    if (core.next_timer() <= now) core.timer(now, sink);
    EXPECT_TRUE(core.next_timer().is_never() ||
                core.next_timer() < now + Duration::seconds(6000));  // (K + 2) GRTTs at most
  }
}

SessionConfig noise_config(std::uint64_t seed, std::span<const std::byte> object) {
  const Scheme& scheme = find_scheme("mdpcc");
  SessionConfig config;
  config.session = 1;
  config.self_id = 2;
  config.seed = seed;
  config.parameters = Parameters(scheme.parameters);
  config.parameters.set("mdpcc.max_rate=20Mbit/s");
  config.parameters.set("mdpcc.max_segments=5000");
  config.object = object;
  return config;
}

TEST(MdpccProperty, NoiseNeverBreaksASender) {
  const std::vector<std::byte> object(944 * 300);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto sender = find_scheme("mdpcc").make_sender(noise_config(
        seed, seed % 2 ? std::span<const std::byte>(object) : std::span<const std::byte>()));
    Watch sink;
    const Time now = Time::zero() + Duration::microseconds((std::int64_t{1} << 32) - 10'000'000);
    sender->start(now, sink);
    sender->membership(now, 0, sink);
    std::vector<std::byte> message(972);
    for (int i = 0; i < 400; ++i) sender->write_data(now, 0, message);
    sender->timer(now, sink);
    feed_noise(*sender, sink, rng, now, 1, {});
    EXPECT_GT(sender->invalid(), 1000u);
    EXPECT_FALSE(sender->next_timer().is_never());
    sender->stop(now, sink);
    EXPECT_TRUE(sender->next_timer().is_never());
  }
}

TEST(MdpccProperty, NoiseNeverBreaksAReceiver) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto receiver = find_scheme("mdpcc").make_receiver(noise_config(seed, {}));
    Watch sink;
    const Time now = Time::zero() + Duration::seconds(5);
    receiver->start(now, sink);
    feed_noise(*receiver, sink, rng, now, 1, {});
    EXPECT_GT(receiver->counters().invalid, 100u);
    receiver->stop(now + Duration::seconds(100), sink);
  }
}

// A random network, random members, and somebody who forges messages in both directions. In the end
// all members that are still there have the object.
TEST(MdpccProperty, ASessionSurvivesAndFinishes) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Simulator simulator;
    simulator.run_until(Time::zero() + Duration::microseconds((std::int64_t{1} << 32) - 5'000'000));
    const unsigned hosts = 2 + static_cast<unsigned>(rng.below(8));
    std::vector<Tree::Node> parents(hosts + 2, 1);
    parents[0] = parents[1] = 0;
    LinkConfig link;
    link.rate = Rate::mbit_per_second(0.5 + 5 * rng.uniform());
    link.delay = Duration::milliseconds(1 + static_cast<std::int64_t>(rng.below(50)));
    link.queue = {5 + static_cast<std::uint32_t>(rng.below(50)), 0};
    link.marking = rng.uniform() < 0.5;
    Tree tree(simulator, parents, link, Duration::milliseconds(10));
    const Scheme& scheme = find_scheme("mdpcc");
    std::vector<std::byte> object(50'000 + rng.below(200'000));
    for (std::byte& b : object) b = static_cast<std::byte>(rng.next());
    SessionConfig config = noise_config(seed, object);
    SenderHost sender(simulator, tree, 0, scheme, config, Duration::milliseconds(2));
    const Impairment::Rates rates{
        .loss = 0.1 * rng.uniform(), .duplicate = 0.1 * rng.uniform(), .late = 0.2 * rng.uniform()};
    config.object = {};
    std::vector<std::unique_ptr<ReceiverHost>> receivers;
    std::vector<std::unique_ptr<Impairment>> lines;
    for (unsigned i = 0; i < hosts; ++i) {
      config.self_id = i + 2;
      config.seed = seed * 100 + i;
      receivers.push_back(std::make_unique<ReceiverHost>(simulator, tree, i + 2, scheme, config,
                                                         Duration::milliseconds(2)));
      receivers.back()->set_send_loss(rates.loss);
      lines.push_back(
          std::make_unique<Impairment>(simulator, *receivers.back(), rates, seed * 7 + i));
      tree.attach(i + 2, 1, lines.back().get());
      simulator.at(simulator.now() + Duration::seconds(10 * rng.uniform()),
                   [host = receivers.back().get()] { host->start(); });
    }
    const auto check = [rates](Time, Tree::Node, std::string_view,
                               std::span<const TraceField> fields) {
      for (const TraceField& field : fields) {
        EXPECT_TRUE(std::isfinite(field.value)) << field.name;
        if (field.name == "tx_rate_Bps") {
          EXPECT_GT(field.value, 0);
          EXPECT_LE(field.value, kCap);
        }
      }
    };
    sender.set_trace(check);
    sender.start();
    // Some leave or die. The first one stays.
    for (unsigned i = 1; i < hosts; ++i) {
      if (rng.uniform() < 0.7) continue;
      simulator.at(simulator.now() + Duration::seconds(10 + 10 * rng.uniform()),
                   [host = receivers[i].get(), dies = rng.uniform() < 0.5] {
                     dies ? host->die() : host->stop();
                   });
    }
    // Noise to the sender and to all.
    for (int i = 0; i < 200; ++i) {
      auto message = std::make_shared<std::vector<std::byte>>(random_message(rng, 1));
      damage(*message, rng);
      Packet packet;
      packet.ip_length = static_cast<std::uint32_t>(message->size() + kIpUdpHeaderBytes);
      packet.session = 1;
      packet.multicast = false;
      packet.to = static_cast<std::uint32_t>(rng.below(hosts + 1));
      if (packet.to > 0) ++packet.to;
      // A forged message with payload of this object could not be told from a genuine one, so none
      // is made.
      wire::MdpccData data;
      if (wire::parse(*message, data) == wire::Error::kOk && data.segment_count > 0) continue;
      packet.message = std::move(message);
      simulator.at(simulator.now() + Duration::seconds(30 * rng.uniform()),
                   [&tree, packet] { tree.send(0, packet); });
    }
    for (int i = 0; i < 6000 && !receivers[0]->counters().complete; ++i) {
      simulator.run_for(Duration::milliseconds(100));
    }
    EXPECT_TRUE(receivers[0]->counters().complete);
    EXPECT_TRUE(receivers[0]->object() == object);
  }
}

// The sender is replaced by a new one with another object.
TEST(MdpccProperty, ARestartedSenderIsFollowed) {
  Simulator simulator;
  LinkConfig link;
  link.rate = Rate::mbit_per_second(5);
  link.delay = Duration::milliseconds(10);
  Tree tree(simulator, {0, 0}, link, Duration::milliseconds(10));
  const Scheme& scheme = find_scheme("mdpcc");
  const std::vector<std::byte> first(400'000, std::byte{1});
  const std::vector<std::byte> second(100'000, std::byte{2});
  ReceiverHost receiver(simulator, tree, 1, scheme, noise_config(1, {}));
  auto sender = std::make_unique<SenderHost>(simulator, tree, 0, scheme, noise_config(5, first));
  sender->start();
  receiver.start();
  simulator.run_for(Duration::seconds(5));
  EXPECT_FALSE(receiver.counters().complete);
  EXPECT_GT(receiver.counters().delivered, 0u);
  sender = std::make_unique<SenderHost>(simulator, tree, 0, scheme, noise_config(6, second));
  sender->start();
  receiver.stop();
  simulator.run_for(Duration::milliseconds(100));
  receiver.start();
  simulator.run_for(Duration::seconds(60));
  EXPECT_TRUE(receiver.counters().complete);
  EXPECT_EQ(receiver.counters().delivered, second.size());
  EXPECT_TRUE(std::equal(second.begin(), second.end(), receiver.object().begin()));
}

}  // namespace
}  // namespace tiercast::testkit
