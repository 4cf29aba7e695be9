// A sender core and receiver cores over a network without queues that loses, repeats and reorders:
// what a reliable scheme must cope with. Virtual time; everything follows from one seed.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/registry.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"
#include "protocols/testkit/simulator.h"

namespace tiercast::testkit {

struct LossyGroupConfig {
  std::string scheme;
  std::vector<std::string> set;
  std::size_t receivers = 1;
  double loss = 0;        // of each copy of a packet, independently, towards receivers
  double ack_loss = 0;    // towards the sender
  double duplicates = 0;  // of each copy, in either direction
  Duration delay = Duration::milliseconds(20);  // one way
  Duration reordering;  // each copy is later by a random time in [0, reordering]
  std::uint32_t packet_size = 1000;
  std::uint64_t seed = 1;
  Time start;  // of the clock
  std::vector<std::byte> object;
};

class LossyGroup {
 public:
  explicit LossyGroup(const LossyGroupConfig& config) : config_(config), rng_(config.seed) {
    const Scheme& scheme = find_scheme(config.scheme);
    session_.session = 7;
    session_.packet_size = config.packet_size;
    session_.seed = config.seed;
    session_.parameters = Parameters(scheme.parameters);
    for (const std::string& assignment : config.set) session_.parameters.set(assignment);
    simulator_.run_until(config.start);
    SessionConfig own = session_;
    own.object = config_.object;
    sender_ = std::make_unique<SenderEnd>(*this, scheme, own);
    for (std::size_t i = 0; i < config.receivers; ++i) {
      own = session_;
      own.self_id = static_cast<std::uint32_t>(i + 1);
      own.seed = config.seed * 1'000'003 + i;
      receivers_.push_back(std::make_unique<ReceiverEnd>(*this, i, scheme, own));
    }
  }

  // Starts the sender and the receivers from `first` to `last` (exclusive).
  void start(std::size_t first, std::size_t last) {
    sender_->driver.start(now());
    sender_->wake();
    for (std::size_t i = first; i < last; ++i) start_receiver(i);
  }
  void start() { start(0, receivers_.size()); }
  void start_receiver(std::size_t i) {
    receivers_[i]->alive = true;
    receivers_[i]->driver.start(now());
    receivers_[i]->wake();
  }
  void stop_receiver(std::size_t i) {
    receivers_[i]->driver.stop(now());
    receivers_[i]->alive = false;
  }
  // Stops a receiver without notice; revive() starts it again.
  void die(std::size_t i) { receivers_[i]->alive = false; }
  void revive(std::size_t i) {
    receivers_[i]->alive = true;
    receivers_[i]->wake();
  }
  void stop_sender() { sender_->driver.stop(now()); }
  // Another sender takes the place of the first, which ended without notice.
  void restart_sender(std::uint64_t seed) {
    SessionConfig own = session_;
    own.object = config_.object;
    own.seed = seed;
    sender_ = std::make_unique<SenderEnd>(*this, find_scheme(config_.scheme), own);
    sender_->driver.start(now());
    if (subscribers_ > 0) sender_->driver.membership(now(), 0);
    sender_->drain();
  }
  void set_loss(double loss) { config_.loss = loss; }
  void set_loss(std::size_t i, double loss) { receivers_[i]->loss = loss; }
  void set_extra_delay(std::size_t i, Duration extra) { receivers_[i]->extra = extra; }
  void run_for(Duration d) { simulator_.run_for(d); }
  Time now() const { return simulator_.now(); }
  Simulator& simulator() { return simulator_; }

  const SenderCore& sender() const { return sender_->driver.core(); }
  const ReceiverCore& receiver(std::size_t i) const { return receivers_[i]->driver.core(); }
  const std::vector<std::byte>& object(std::size_t i) const { return receivers_[i]->object; }
  bool in_order(std::size_t i) const { return receivers_[i]->in_order; }
  std::uint64_t unicasts() const { return unicasts_; }
  std::uint64_t data_packets() const { return data_packets_; }
  std::uint64_t feedback_packets() const { return feedback_packets_; }
  // The last messages in each direction, to be mutated.
  const std::vector<std::byte>& last_data() const { return last_data_; }
  const std::vector<std::byte>& last_feedback() const { return last_feedback_; }

  // Delivers a message now, as if from receiver `from`.
  void to_sender(std::vector<std::byte> message, std::size_t from) {
    sender_->take(message, address(from));
  }
  void to_receiver(std::vector<std::byte> message, std::size_t i) {
    receivers_[i]->take(message, 0x0a000001);
  }

 private:
  static std::uint32_t address(std::size_t receiver) {
    return 0x0a010000u + static_cast<std::uint32_t>(receiver);
  }

  static Arrival arrival(const std::vector<std::byte>& message, std::uint32_t from) {
    return {message, static_cast<std::uint32_t>(message.size()) + kIpUdpHeaderBytes, false, from};
  }

  struct SenderEnd : Actor {
    SenderEnd(LossyGroup& g, const Scheme& scheme, const SessionConfig& config)
        : Actor(g.simulator_),
          group(g),
          driver(scheme.make_sender(config), {scheme, config}, *this, SessionPacing(config)) {}
    void take(const std::vector<std::byte>& message, std::uint32_t from) {
      driver.receive(now(), arrival(message, from));
      drain();
    }
    void act() override {
      driver.run(now());
      wake();
    }
    void drain() {
      driver.send_released(now());
      wake();
    }
    void wake() { set_call(driver.next_call(now())); }
    void depart(Time now, const Departure& departure) {
      std::vector<std::byte> message(group.config_.packet_size - kIpUdpHeaderBytes);
      if (driver.write_data(now, departure.layer, message) == 0) return;
      ++group.data_packets_;
      group.last_data_ = message;
      for (std::size_t i = 0; i < group.receivers_.size(); ++i) group.carry_down(message, i);
    }
    void send(Destination to, std::span<const std::byte> bytes) {
      std::vector<std::byte> message(bytes.begin(), bytes.end());
      for (std::size_t i = 0; i < group.receivers_.size(); ++i) {
        if (to.kind == Destination::Kind::kReceiver && to.address != address(i)) continue;
        group.unicasts_ += to.kind == Destination::Kind::kReceiver ? 1 : 0;
        group.carry_down(message, i);
      }
    }
    bool wants_records() const { return true; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}
    LossyGroup& group;
    SenderDriver<SenderEnd> driver;
  };

  struct ReceiverEnd : Actor {
    ReceiverEnd(LossyGroup& g, std::size_t i, const Scheme& scheme, const SessionConfig& config)
        : Actor(g.simulator_),
          group(g),
          index(i),
          driver(scheme.make_receiver(config), {scheme, config}, *this) {}
    void take(const std::vector<std::byte>& message, std::uint32_t from) {
      if (!alive) return;
      driver.receive(now(), arrival(message, from), std::nullopt);
      wake();
    }
    void act() override {
      if (!alive) return;
      driver.run(now());
      wake();
    }
    void wake() { set_call(driver.next_call()); }
    void send(std::span<const std::byte> bytes) {
      ++group.feedback_packets_;
      group.last_feedback_.assign(bytes.begin(), bytes.end());
      group.carry_up({bytes.begin(), bytes.end()}, index);
    }
    Time join(Rank) {
      subscribe(+1);
      return now();
    }
    void leave(Rank) { subscribe(-1); }
    void first_packet(Time, Rank, Duration) {}
    void subscribe(int change) {
      group.simulator_.at(now() + group.config_.delay, [this, change] {
        const int before = group.subscribers_;
        group.subscribers_ += change;
        if ((before == 0) == (group.subscribers_ == 0)) return;
        group.sender_->driver.membership(now(), group.subscribers_ == 0 ? -1 : 0);
        group.sender_->drain();
      });
    }
    void deliver(std::uint64_t offset, std::span<const std::byte> bytes) {
      in_order = in_order && offset >= object.size();
      object.resize(offset);
      object.insert(object.end(), bytes.begin(), bytes.end());
    }
    bool wants_records() const { return true; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}
    LossyGroup& group;
    std::size_t index;
    ReceiverDriver<ReceiverEnd> driver;
    bool alive = false;
    bool in_order = true;
    double loss = -1;  // negative: that of the group
    Duration extra;
    std::vector<std::byte> object;
  };

  Duration lateness(std::size_t i) {
    return config_.delay + receivers_[i]->extra + config_.reordering * rng_.uniform();
  }
  void carry_down(const std::vector<std::byte>& message, std::size_t i) {
    for (int copies = rng_.uniform() < config_.duplicates ? 2 : 1; copies > 0; --copies) {
      const double loss = receivers_[i]->loss < 0 ? config_.loss : receivers_[i]->loss;
      if (rng_.uniform() < loss) continue;
      simulator_.at(now() + lateness(i), [this, message, i] { to_receiver(message, i); });
    }
  }
  void carry_up(const std::vector<std::byte>& message, std::size_t i) {
    for (int copies = rng_.uniform() < config_.duplicates ? 2 : 1; copies > 0; --copies) {
      if (rng_.uniform() < config_.ack_loss) continue;
      simulator_.at(now() + lateness(i), [this, message, i] { to_sender(message, i); });
    }
  }

  LossyGroupConfig config_;
  Simulator simulator_;
  Rng rng_;
  SessionConfig session_;
  std::unique_ptr<SenderEnd> sender_;
  std::vector<std::unique_ptr<ReceiverEnd>> receivers_;
  int subscribers_ = 0;
  std::uint64_t unicasts_ = 0;
  std::uint64_t data_packets_ = 0;
  std::uint64_t feedback_packets_ = 0;
  std::vector<std::byte> last_data_;
  std::vector<std::byte> last_feedback_;
};

inline std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

// A forged message, to the sender as if from receiver `who`, or to that receiver: random bytes, or
// the last message of that direction with some of its first `within` bytes altered, sometimes
// truncated.
inline void forge(LossyGroup& group, Rng& rng, std::size_t who, std::size_t within) {
  const auto mutated = [&](std::vector<std::byte> message) {
    if (message.empty()) return message;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) {
      message[rng.below(std::min<std::size_t>(message.size(), within))] =
          static_cast<std::byte>(rng.next());
    }
    if (rng.uniform() < 0.2) message.resize(rng.below(message.size() + 1));
    return message;
  };
  switch (rng.below(4)) {
    case 0: group.to_sender(random_bytes(rng.below(64), rng.next()), who); break;
    case 1: group.to_sender(mutated(group.last_feedback()), who); break;
    case 2: group.to_receiver(mutated(group.last_data()), who); break;
    default: group.to_receiver(random_bytes(rng.below(64), rng.next()), who);
  }
}

}  // namespace tiercast::testkit
