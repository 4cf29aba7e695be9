// A scheme's cores in a network that loses, duplicates, reorders, truncates, alters and invents
// messages, for property tests. Checks what must hold for every scheme: no rate is negative, NaN or
// above the cap, no timer keeps time from advancing, and data flow again once the network is well.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/registry.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"
#include "tests/protocols/rigs/capped_pacing.h"

namespace tiercast {

class HostileNetwork {
 public:
  // `start`: the first instant. `cap`: no rate may exceed it.
  HostileNetwork(std::string_view scheme, std::uint64_t seed, Time start, Rate cap,
                 const std::vector<std::string>& set = {})
      : scheme_(find_scheme(scheme)), rng_(seed), now_(start) {
    config_.session = 3;
    config_.seed = seed;
    config_.parameters = Parameters(scheme_.parameters);
    for (const std::string& assignment : set) config_.parameters.set(assignment);
    // The cap is reached only to floating-point accuracy.
    sender_.emplace(scheme_.make_sender(config_), Contract(scheme_, config_), *this,
                    CappedPacing(config_, cap * (1 + 1e-9)));
    sender_->start(now_);
    sender_->membership(now_, 0);
    for (int i = 0; i < 4; ++i) add_receiver();
  }

  // What the network does to messages, as probabilities per message unless stated.
  struct Weather {
    double loss = 0.01;
    double twice = 0;
    double altered = 0;
    double invented = 0;     // per millisecond: random bytes, or an altered old message
    double come_and_go = 0;  // per millisecond: a receiver leaves, dies or arrives
    Duration reordering;     // largest additional delay
  };

  void run(Duration duration, const Weather& weather) {
    weather_ = weather;
    const Time end = now_ + duration;
    for (; now_ < end; now_ = now_ + Duration::milliseconds(1)) step();
  }

  std::uint64_t data_packets() const { return data_packets_; }
  std::uint64_t received_packets() const {
    std::uint64_t packets = 0;
    for (const auto& member : receivers_) packets += member->driver->core().counters().packets;
    return packets;
  }
  std::uint64_t invalid() const { return sender_->core().invalid(); }
  Rate rate() const { return sender_->rate(0); }

 private:
  using Bytes = std::vector<std::byte>;

  friend class SenderDriver<HostileNetwork, CappedPacing>;

  struct Member {
    Member(HostileNetwork& network, std::uint32_t number) : net(network), id(number) {}
    void send(std::span<const std::byte> message) {
      net.post(id, Destination::sender(), {message.begin(), message.end()});
    }
    Time join(Rank) { return net.now_; }
    void leave(Rank) {}
    void first_packet(Time, Rank, Duration) {}
    void deliver(std::uint64_t, std::span<const std::byte>) {}
    bool wants_records() const { return true; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}

    HostileNetwork& net;
    std::uint32_t id;
    std::optional<ReceiverDriver<Member>> driver;
    bool alive = true;
  };

  struct Message {
    std::uint32_t from;
    Destination to;
    Bytes bytes;
  };

  void add_receiver() {
    config_.self_id = next_id_++;
    config_.seed = rng_.next();
    receivers_.push_back(std::make_unique<Member>(*this, config_.self_id));
    Member& member = *receivers_.back();
    member.driver.emplace(scheme_.make_receiver(config_), Contract(scheme_, config_), member);
    member.driver->start(now_);
  }

  bool chance(double probability) { return rng_.uniform() < probability; }

  void alter(Bytes& bytes) {
    if (chance(0.2)) bytes.resize(rng_.below(bytes.size() + 1));
    if (chance(0.1)) bytes.resize(bytes.size() + rng_.below(8));
    for (std::uint64_t n = 1 + rng_.below(4); n > 0 && !bytes.empty(); --n) {
      // Usually after the common header, because a message that is refused there tests little.
      const std::size_t from = bytes.size() > 8 && !chance(0.1) ? 8 : 0;
      const std::size_t span = std::min<std::size_t>(bytes.size() - from, 64);
      constexpr std::uint8_t kExtremes[] = {0, 1, 0x7f, 0x80, 0xff};
      bytes[from + rng_.below(span)] = static_cast<std::byte>(
          chance(0.5) ? kExtremes[rng_.below(5)] : static_cast<std::uint8_t>(rng_.next()));
    }
  }

  void post(std::uint32_t from, Destination to, Bytes bytes) {
    if (old_.size() < 64) {
      old_.push_back({from, to, bytes});
    } else {
      old_[rng_.below(64)] = {from, to, bytes};
    }
    const int copies = chance(weather_.loss) ? 0 : chance(weather_.twice) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      Message message{from, to, bytes};
      if (chance(weather_.altered)) alter(message.bytes);
      flying_.emplace(now_ + Duration::milliseconds(20) + weather_.reordering * rng_.uniform(),
                      std::move(message));
    }
  }

  void deliver(const Message& message) {
    const auto length = static_cast<std::uint32_t>(message.bytes.size()) + kIpUdpHeaderBytes;
    // Receive time stamps may lie before the latest instant (core.h).
    const Time at = now_ - Duration::microseconds(static_cast<std::int64_t>(rng_.below(500)));
    const bool ce = chance(0.01);
    if (message.to.kind == Destination::Kind::kSender) {
      sender_->receive(at, {message.bytes, length, ce, message.from});
      return;
    }
    for (const auto& member : receivers_) {
      if (!member->alive || chance(weather_.loss)) continue;
      if (message.to.kind == Destination::Kind::kReceiver && message.to.address != member->id)
        continue;
      member->driver->receive(at, {message.bytes, length, ce, 0}, std::nullopt);
    }
  }

  // The functions that the sender's driver needs.
  void send(Destination to, std::span<const std::byte> message) {
    post(0, to, {message.begin(), message.end()});
  }
  bool wants_records() const { return true; }
  void trace(Time, std::string_view, std::span<const TraceField>) {}
  void depart(Time now, const Departure& departure) {
    Bytes message(config_.packet_size - kIpUdpHeaderBytes);
    if (sender_->write_data(now, departure.layer, message) == 0) return;
    ++data_packets_;
    post(0, Destination::group(0), std::move(message));
  }

  void step() {
    if (chance(weather_.invented)) {
      Message message;
      if (!old_.empty() && chance(0.7)) {
        message = old_[rng_.below(old_.size())];
        alter(message.bytes);
      } else {
        message.bytes.resize(rng_.below(120));
        for (std::byte& byte : message.bytes) byte = static_cast<std::byte>(rng_.next());
        if (chance(0.5)) message.to = Destination::group(0);
      }
      message.from = static_cast<std::uint32_t>(rng_.below(40));
      deliver(message);
    }
    if (chance(weather_.come_and_go)) {
      Member& member = *receivers_[rng_.below(receivers_.size())];
      if (receivers_.size() < 16 && chance(0.5)) {
        add_receiver();
      } else if (member.alive) {
        if (chance(0.5)) member.driver->stop(now_);
        member.alive = false;
      }
    }
    while (!flying_.empty() && flying_.begin()->first <= now_) {
      const Message message = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      deliver(message);
    }
    while (sender_->next_timer() <= now_) sender_->timer(now_);
    for (const auto& member : receivers_) {
      while (member->alive && member->driver->next_call() <= now_) member->driver->run(now_);
    }
    sender_->run(now_);
  }

  const Scheme& scheme_;
  SessionConfig config_;
  Rng rng_;
  Time now_;
  std::optional<SenderDriver<HostileNetwork, CappedPacing>> sender_;
  std::vector<std::unique_ptr<Member>> receivers_;
  std::uint32_t next_id_ = 1;
  std::multimap<Time, Message> flying_;
  std::vector<Message> old_;
  Weather weather_;
  std::uint64_t data_packets_ = 0;
};

// What every scheme must survive: a minute of good weather, a minute of bad weather, and a minute
// in which the remaining receivers get data again.
inline void survives_bad_weather(std::string_view scheme, const std::vector<std::string>& set,
                                 std::uint64_t seed, Rate cap) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  // Half of the runs start 30 s before the sender's 32-bit microseconds wrap.
  const Time start =
      seed % 2 == 0 ? Time::zero() : Time::nanoseconds(((1ll << 32) - 30'000'000) * 1000);
  HostileNetwork net(scheme, seed, start, cap, set);
  net.run(Duration::seconds(20), {});
  HostileNetwork::Weather bad;
  bad.loss = 0.1;
  bad.twice = 0.1;
  bad.altered = 0.1;
  bad.invented = 0.05;
  bad.come_and_go = 0.001;
  bad.reordering = Duration::milliseconds(40);
  net.run(Duration::seconds(60), bad);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_GT(net.invalid(), 0u);
  // Those who came and went may have left nobody, so let receivers join again.
  HostileNetwork::Weather refill;
  refill.come_and_go = 0.01;
  net.run(Duration::seconds(1), refill);
  net.run(Duration::seconds(60), {});
  const std::uint64_t sent = net.data_packets();
  net.run(Duration::seconds(20), {});
  EXPECT_GT(net.rate(), Rate::zero());
  EXPECT_GT(net.data_packets(), sent);
}

}  // namespace tiercast
