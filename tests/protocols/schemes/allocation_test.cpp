// Cores, drivers and the pacer allocate nothing after construction. operator new is counted while a
// session on figure 1's topology runs, but only inside the cores (the testkit around them allocates
// for each packet).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"
#include "protocols/pacer/pacer.h"
#include "protocols/schemes/ermcc/messages.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/testkit/session.h"
#include "tests/support/allocations.h"

namespace tiercast::testkit {
namespace {

// Passes a core's answers on to the runtime, which may allocate.
class UncountedSink : public Sink {
 public:
  explicit UncountedSink(Sink& to) : to_(to) {}
  void send(Destination to, std::span<const std::byte> message) override {
    const CountAllocations off(false);
    to_.send(to, message);
  }
  void join(Rank rank) override {
    const CountAllocations off(false);
    to_.join(rank);
  }
  void leave(Rank rank) override {
    const CountAllocations off(false);
    to_.leave(rank);
  }
  void set_rate(Rank layer, Rate rate) override {
    const CountAllocations off(false);
    to_.set_rate(layer, rate);
  }
  void release(Rank layer, std::uint32_t packets) override {
    const CountAllocations off(false);
    to_.release(layer, packets);
  }
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const CountAllocations off(false);
    to_.deliver(offset, bytes);
  }
  void trace(std::string_view kind, std::span<const TraceField> fields) override {
    const CountAllocations off(false);
    to_.trace(kind, fields);
  }

 private:
  Sink& to_;
};

// A core whose allocations are counted.
template <class Base>
class Counted : public Base {
 public:
  explicit Counted(std::unique_ptr<Base> core) : core_(std::move(core)) {}
  void start(Time now, Sink& sink) override {
    UncountedSink uncounted(sink);
    const CountAllocations on;
    core_->start(now, uncounted);
  }
  void receive(Time now, const Arrival& arrival, Sink& sink) override {
    UncountedSink uncounted(sink);
    const CountAllocations on;
    core_->receive(now, arrival, uncounted);
  }
  void timer(Time now, Sink& sink) override {
    UncountedSink uncounted(sink);
    const CountAllocations on;
    core_->timer(now, uncounted);
  }
  Time next_timer() const override {
    const CountAllocations on;
    return core_->next_timer();
  }
  void stop(Time now, Sink& sink) override {
    UncountedSink uncounted(sink);
    const CountAllocations on;
    core_->stop(now, uncounted);
  }

 protected:
  std::unique_ptr<Base> core_;
};

class CountedSender final : public Counted<SenderCore> {
 public:
  using Counted::Counted;
  void membership(Time now, int top_rank, Sink& sink) override {
    UncountedSink uncounted(sink);
    const CountAllocations on;
    core_->membership(now, top_rank, uncounted);
  }
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override {
    const CountAllocations on;
    return core_->write_data(now, layer, message);
  }
  std::uint64_t invalid() const override { return core_->invalid(); }
  bool ecn_capable() const override { return core_->ecn_capable(); }
  bool finished() const override {
    const CountAllocations on;
    return core_->finished();
  }
};

class CountedReceiver final : public Counted<ReceiverCore> {
 public:
  using Counted::Counted;
  ReceiverCounters counters() const override {
    const CountAllocations on;
    return core_->counters();
  }
};

// The scheme `name` with counted cores. Only one at a time, because a scheme's makers are plain
// functions.
Scheme counted(std::string_view name) {
  static const Scheme* original;
  original = &find_scheme(name);
  Scheme scheme = *original;
  scheme.make_sender = [](const SessionConfig& config) -> std::unique_ptr<SenderCore> {
    return std::make_unique<CountedSender>(original->make_sender(config));
  };
  scheme.make_receiver = [](const SessionConfig& config) -> std::unique_ptr<ReceiverCore> {
    return std::make_unique<CountedReceiver>(original->make_receiver(config));
  };
  return scheme;
}

TEST(Allocation, TheCountSeesWhatACoreWouldAllocate) {
  const CountAllocations on;
  const std::size_t before = allocations().count;
  ::operator delete(::operator new(1));  // a new-expression may be optimised away
  const std::size_t after = allocations().count;
  EXPECT_EQ(after, before + 1);
}

void expect_none(std::string_view name) {
  SCOPED_TRACE(name);
  Simulator simulator;
  Figure1 figure(simulator);
  const Scheme scheme = counted(name);
  SessionConfig config;
  config.session = 1;
  config.layers = scheme.layered ? 5 : 1;
  config.parameters = Parameters(scheme.parameters);
  // Five layers of 20 kbit/s would fit through every link, and nobody would ever leave a layer.
  if (name == "plm") config.parameters.set("plm.layer_rate=1.2Mbit/s");
  const Duration jitter = Duration::milliseconds(2);
  SenderHost sender(simulator, figure.tree, 0, scheme, config, jitter);
  std::vector<std::unique_ptr<ReceiverHost>> receivers;
  for (const Tree::Node node : Figure1::receivers()) {
    config.self_id = node;
    receivers.push_back(
        std::make_unique<ReceiverHost>(simulator, figure.tree, node, scheme, config, jitter));
  }
  const std::size_t before = allocations().count;
  sender.start();
  for (const auto& receiver : receivers) receiver->start();
  simulator.run_for(Duration::seconds(60));  // layers come and go, and losses occur
  std::uint64_t packets = 0, changes = 0;
  for (const auto& receiver : receivers) {
    packets += receiver->counters().packets;
    changes += receiver->subscription_changes();
    receiver->stop();
  }
  simulator.run_for(Duration::seconds(2));  // farewells arrive, the layers stop
  EXPECT_EQ(allocations().count - before, 0u);
  EXPECT_GT(packets, 1000u);
  if (scheme.layered) {
    EXPECT_GT(changes, 32u);  // more than each receiver's first join
  }
}

TEST(Allocation, CoresMakeNoneFromStartToStop) {
  for (const Scheme& scheme : schemes()) expect_none(scheme.name);
}

TEST(Allocation, ThePacerMakesNone) {
  constexpr std::uint32_t kLayers = 1000;
  Pacer pacer(kLayers);
  Rng rng(3);
  Time now = Time::zero();
  std::size_t departures = 0;
  const std::size_t before = allocations().count;
  {
    const CountAllocations on;
    for (int i = 0; i < 100'000; ++i) {
      const Rate rate = Rate::bits_per_second(rng.uniform() < 0.2 ? 0 : 1e3 + 1e6 * rng.uniform());
      pacer.set_rate(now, static_cast<Pacer::Layer>(rng.below(kLayers)), rate, 1000);
      now = now + Duration::microseconds(static_cast<std::int64_t>(rng.below(200)));
      while (pacer.pop(now)) ++departures;
      pacer.next_departure();
    }
  }
  EXPECT_EQ(allocations().count - before, 0u);
  EXPECT_GT(departures, 100'000u);
}

// A sender driven by the test's clock, and a receiver that gets all of its packets. Everything is
// counted: the drivers and the pacer with their cores.
struct OneToOne {
  explicit OneToOne(const Scheme& scheme) {
    SessionConfig config;
    config.layers = scheme.layered ? 5 : 1;
    config.parameters = Parameters(scheme.parameters);
    packet.resize(config.packet_size - kIpUdpHeaderBytes);
    sender.emplace(scheme.make_sender(config), Contract(scheme, config), *this,
                   SessionPacing(config));
    receiver.emplace(scheme.make_receiver(config), Contract(scheme, config), ear);
  }
  void send(Destination, std::span<const std::byte>) {}
  bool wants_records() const { return true; }
  void trace(Time, std::string_view, std::span<const TraceField>) {}
  void depart(Time now, const Departure& departure) {
    if (sender->write_data(now, departure.layer, packet) == 0) return;
    ++packets;
    receiver->receive(now, {packet, 1000, false, 1}, departure.layer);
  }
  struct Ear {
    void send(std::span<const std::byte> message) {
      feedback = std::min(message.size(), said.size());
      std::copy_n(message.begin(), feedback, said.begin());
    }
    Time join(Rank) { return Time::zero(); }
    void leave(Rank) {}
    void first_packet(Time, Rank, Duration) {}
    void deliver(std::uint64_t, std::span<const std::byte>) {}
    bool wants_records() const { return true; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}
    std::array<std::byte, 2048> said;
    std::size_t feedback = 0;
  };
  void run(Time from, Time until) {
    sender->start(from);
    receiver->start(from);
    sender->membership(from, kMaxLayers);
    for (Time now = from; now < until; now = now + Duration::milliseconds(1)) {
      sender->run(now);
      receiver->run(now);
      if (const std::size_t size = std::exchange(ear.feedback, 0)) {
        sender->receive(now, {std::span(ear.said).first(size), 0, false, 2});
      }
    }
    receiver->stop(until);
    sender->stop(until);
  }
  Ear ear;
  std::vector<std::byte> packet;
  std::optional<SenderDriver<OneToOne>> sender;
  std::optional<ReceiverDriver<Ear>> receiver;
  std::uint64_t packets = 0;
};

TEST(Allocation, DriversMakeNoneFromStartToStop) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    OneToOne pair(scheme);
    const std::size_t before = allocations().count;
    {
      const CountAllocations on;
      pair.run(Time::zero() + Duration::seconds(1), Time::zero() + Duration::seconds(11));
    }
    EXPECT_EQ(allocations().count - before, 0u);
    EXPECT_GT(pair.packets, 10u);
  }
}

class NullSink : public Sink {
 public:
  void send(Destination, std::span<const std::byte>) override {}
  void join(Rank) override {}
  void leave(Rank) override {}
  void set_rate(Rank, Rate) override {}
  void release(Rank, std::uint32_t) override {}
  void deliver(std::uint64_t, std::span<const std::byte>) override {}
  void trace(std::string_view, std::span<const TraceField>) override {}
};

// ERMCC 3.3: a source's memory does not depend on the number of receivers. Counts the bytes
// allocated by its constructor, and while this many receivers report after each packet.
TEST(State, OfErmccsSourceIsTheSameForAnyNumberOfReceivers) {
  const auto bytes = [](std::uint32_t receivers) {
    const Scheme& scheme = find_scheme("ermcc");
    SessionConfig config;
    config.parameters = Parameters(scheme.parameters);
    NullSink sink;
    std::vector<std::byte> packet(972);
    const std::size_t before = allocations().bytes;
    const CountAllocations on;
    const auto source = scheme.make_sender(config);
    source->start(Time::zero(), sink);
    source->membership(Time::zero(), 0, sink);
    for (int i = 0; i < 20; ++i) {
      const Time now = Time::zero() + Duration::milliseconds(50 * i);
      source->timer(now, sink);
      EXPECT_GT(source->write_data(now, 0, packet), 0u);
      wire::ErmccData data;
      EXPECT_EQ(wire::parse(packet, data), wire::Error::kOk);
      for (std::uint32_t id = 1; id <= receivers; ++id) {
        const wire::ErmccFeedback feedback{
            0, wire::ErmccFeedback::Kind::kCongestion, id, data.seq, 1'000'000 - id, 1'000'000 - id,
            0};
        std::array<std::byte, wire::ErmccFeedback::kBytes> message;
        wire::write(feedback, message);
        source->receive(now, {message, 60, false, id}, sink);
      }
    }
    EXPECT_EQ(source->invalid(), 0u);
    return allocations().bytes - before;
  };
  const std::size_t one = bytes(1);
  EXPECT_GT(one, 0u);
  EXPECT_EQ(bytes(1'000), one);
  EXPECT_EQ(bytes(10'000), one);
}

// MDP-CC, "parameter estimation": the only state that the sender keeps of receivers is five
// representatives.
TEST(State, OfMdpccsSenderIsTheSameForAnyNumberOfReceivers) {
  struct ProbeSink : NullSink {
    void send(Destination, std::span<const std::byte> message) override {
      wire::MdpccProbe heard;
      if (wire::parse(message, heard) == wire::Error::kOk) probe = heard;
    }
    wire::MdpccProbe probe;
  };
  const auto bytes = [](std::uint32_t receivers) {
    const Scheme& scheme = find_scheme("mdpcc");
    SessionConfig config;
    config.parameters = Parameters(scheme.parameters);
    ProbeSink sink;
    const std::size_t before = allocations().bytes;
    const CountAllocations on;
    const auto sender = scheme.make_sender(config);
    sender->start(Time::zero(), sink);
    sender->membership(Time::zero(), 0, sink);
    for (int i = 0; i < 20; ++i) {
      const Time now = sender->next_timer();
      sender->timer(now, sink);
      for (std::uint32_t id = 1; id <= receivers; ++id) {
        wire::MdpccReport report;
        report.source = id;
        report.probe_seq = sink.probe.probe_seq;
        report.response_us = sink.probe.tx_time_us;
        report.loss = 1'000'000 * id;
        std::array<std::byte, wire::MdpccReport::kBytes> message;
        wire::write(report, message);
        sender->receive(now + Duration::milliseconds(50), {message, 64, false, id}, sink);
      }
    }
    EXPECT_EQ(sender->invalid(), 0u);
    EXPECT_EQ(sink.probe.record_count, std::min(receivers, 5u));
    return allocations().bytes - before;
  };
  const std::size_t one = bytes(1);
  EXPECT_GT(one, 0u);
  EXPECT_EQ(bytes(1'000), one);
  EXPECT_EQ(bytes(10'000), one);
}

}  // namespace
}  // namespace tiercast::testkit
