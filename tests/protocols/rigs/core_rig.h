// A sender core and receiver cores joined by a channel that loses, repeats, reorders and alters
// messages, each with a clock of its own, in virtual time. For properties that must hold whatever
// happens. For links and queues, see the testkit.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/registry.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"
#include "tests/protocols/rigs/capped_pacing.h"

namespace tiercast {

struct RigConfig {
  std::string scheme;
  unsigned receivers = 1;
  unsigned layers = 3;
  std::uint32_t packet_size = 1000;
  std::uint64_t seed = 1;
  Time start = Time::zero() + Duration::seconds(1);  // on the sender's clock
  Duration clock_step;  // receiver i's clock is ahead of the sender's by i + 1 times this
  Duration delay = Duration::milliseconds(20);  // one way
  double loss = 0;  // of each message to each member, 0 .. 1; so are the next ones
  double duplicate = 0;
  double reorder = 0;                     // late by up to ten times the delay
  double alter = 0;                       // one byte changed, or the end cut off
  Rate cap = Rate::mbit_per_second(100);  // no layer may be faster
  std::vector<std::string> set;
};

class Rig {
 public:
  explicit Rig(const RigConfig& config) : config_(config), rng_(config.seed), now_(config.start) {
    const Scheme& scheme = find_scheme(config.scheme);
    session_.session = 9;
    session_.layers = config.layers;
    session_.packet_size = config.packet_size;
    session_.seed = config.seed;
    session_.parameters = Parameters(scheme.parameters);
    for (const std::string& assignment : config.set) session_.parameters.set(assignment);
    sender_.emplace(scheme.make_sender(session_), Contract(scheme, session_), *this,
                    CappedPacing(session_, config.cap));
    for (unsigned i = 0; i < config.receivers; ++i) {
      members_.emplace_back(*this, i);
      make(i);
    }
  }

  void start() {
    sender_->start(now_);
    for (unsigned i = 0; i < config_.receivers; ++i) join(i);
  }
  // A member joins, perhaps again. It gets a new core, as after a restart.
  void join(unsigned i) {
    make(i);
    members_[i].alive = true;
    members_[i].driver->start(clock(i));
    watch(i);
    update_membership();
  }
  void leave(unsigned i) {
    members_[i].driver->stop(clock(i));
    members_[i].alive = false;
    members_[i].joined = {};
    update_membership();
  }
  // The member stops without notice. The network keeps it until forget().
  void die(unsigned i) { members_[i].alive = false; }
  void forget(unsigned i) {
    members_[i].joined = {};
    update_membership();
  }
  void run_for(Duration duration) {
    const Time end = now_ + duration;
    while (true) {
      Time next = sender_->next_call(now_);
      if (!events_.empty()) next = std::min(next, events_.top().at);
      if (!timers_.empty()) next = std::min(next, timers_.top().first);
      if (next > end) break;
      now_ = std::max(now_, next);
      step();
      if (testing::Test::HasFatalFailure()) return;
    }
    now_ = end;
  }
  void to_sender(std::vector<std::byte> message, std::uint32_t from = 1) {
    sender_->receive(now_, arrival(message, from));
    sender_->send_released(now_);
  }
  void to_receiver(unsigned i, std::vector<std::byte> message) {
    members_[i].driver->receive(clock(i), arrival(message, 0), std::nullopt);
    watch(i);
  }

  const SenderCore& sender() const { return sender_->core(); }
  const ReceiverCore& receiver(unsigned i) const { return members_[i].driver->core(); }
  const SessionConfig& session() const { return session_; }
  Rate rate(Rank layer) const { return sender_->rate(layer); }
  const std::string& scheme() const { return config_.scheme; }
  Time now() const { return now_; }
  std::uint64_t feedback() const { return feedback_; }
  std::uint64_t controls() const { return controls_; }
  // The last 64 messages in either direction, as material for forgeries.
  const std::vector<std::vector<std::byte>>& heard() const { return heard_; }
  std::function<void(unsigned receiver, std::span<const std::byte>)> on_feedback;

 private:
  static constexpr std::uint32_t kSender = 0xffffffff;

  friend class SenderDriver<Rig, CappedPacing>;

  struct Member {
    Member(Rig& r, unsigned number) : rig(r), i(number) {}

    void send(std::span<const std::byte> message) {
      ++rig.feedback_;
      if (rig.on_feedback) rig.on_feedback(i, message);
      rig.post(kSender, i + 1, {message.begin(), message.end()}, 0);
    }
    Time join(Rank rank) {
      joined[rank] = true;
      rig.membership_changed_ = true;
      return rig.clock(i);
    }
    void leave(Rank rank) {
      joined[rank] = false;
      rig.membership_changed_ = true;
    }
    void first_packet(Time, Rank, Duration) {}
    void deliver(std::uint64_t, std::span<const std::byte>) {}
    bool wants_records() const { return true; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}

    Rig& rig;
    unsigned i;
    std::optional<ReceiverDriver<Member>> driver;
    bool alive = false;
    std::array<bool, kMaxLayers> joined{};  // as the network knows it
    Time watched = Time::never();
  };
  struct Event {
    Time at;
    std::uint64_t order;
    std::uint32_t to;
    std::uint32_t from;
    std::shared_ptr<const std::vector<std::byte>> message;
    std::uint32_t ip_length;
    bool operator>(const Event& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  // The functions that the sender's driver needs.
  void send(Destination to, std::span<const std::byte> message) {
    ++controls_;
    ASSERT_GT(message.size(), 0u);
    if (to.kind == Destination::Kind::kGroup) {
      multicast(to.rank, {message.begin(), message.end()},
                static_cast<std::uint32_t>(message.size()) + kIpUdpHeaderBytes);
    } else if (to.address >= 1 && to.address <= members_.size()) {
      post(to.address - 1, kSender, {message.begin(), message.end()}, 0);
    }
  }
  bool wants_records() const { return true; }
  void trace(Time, std::string_view, std::span<const TraceField>) {}
  void depart(Time now, const Departure& departure) {
    std::vector<std::byte> message(config_.packet_size - kIpUdpHeaderBytes);
    if (sender_->write_data(now, departure.layer, message) == 0) return;
    multicast(departure.layer, std::move(message), config_.packet_size);
  }

  void make(unsigned i) {
    const Scheme& scheme = find_scheme(config_.scheme);
    SessionConfig own = session_;
    own.self_id = i + 1;
    own.seed = config_.seed * 1'000'003 + i;
    Member& member = members_[i];
    member.alive = false;
    member.joined = {};
    member.watched = Time::never();
    member.driver.emplace(scheme.make_receiver(own), Contract(scheme, own), member);
  }
  Time clock(unsigned i) const { return now_ + config_.clock_step * (i + 1.0); }
  static Arrival arrival(const std::vector<std::byte>& message, std::uint32_t from) {
    return {message, static_cast<std::uint32_t>(message.size()) + kIpUdpHeaderBytes, false, from};
  }
  void watch(unsigned i) {
    const Time own = members_[i].driver->core().next_timer();
    if (own.is_never()) return;
    const Time next = own - config_.clock_step * (i + 1.0);
    if (next >= members_[i].watched && members_[i].watched >= now_) return;
    members_[i].watched = next;
    timers_.push({next, i});
  }
  void multicast(Rank rank, std::vector<std::byte> message, std::uint32_t ip_length) {
    const auto shared = std::make_shared<const std::vector<std::byte>>(std::move(message));
    for (unsigned i = 0; i < members_.size(); ++i) {
      if (members_[i].joined[rank]) post_shared(i, kSender, shared, ip_length);
    }
  }
  void post(std::uint32_t to, std::uint32_t from, std::vector<std::byte> message,
            std::uint32_t ip_length) {
    post_shared(to, from, std::make_shared<const std::vector<std::byte>>(std::move(message)),
                ip_length);
  }
  void post_shared(std::uint32_t to, std::uint32_t from,
                   std::shared_ptr<const std::vector<std::byte>> message, std::uint32_t ip_length) {
    if (heard_.size() < 64) {
      heard_.push_back(*message);
    } else if (config_.alter > 0) {
      heard_[rng_.below(64)] = *message;
    }
    if (ip_length == 0) {
      ip_length = static_cast<std::uint32_t>(message->size()) + kIpUdpHeaderBytes;
    }
    if (rng_.uniform() < config_.loss) return;
    const unsigned copies = rng_.uniform() < config_.duplicate ? 2 : 1;
    for (unsigned copy = 0; copy < copies; ++copy) {
      Duration delay = config_.delay;
      if (rng_.uniform() < config_.reorder) delay = delay + config_.delay * (10 * rng_.uniform());
      if (rng_.uniform() < config_.alter) message = altered(*message);
      events_.push({now_ + delay, next_order_++, to, from, message, ip_length});
    }
  }
  std::shared_ptr<const std::vector<std::byte>> altered(std::vector<std::byte> message) {
    if (rng_.uniform() < 0.3) {
      message.resize(rng_.below(message.size() + 1));
    } else {
      // Alter the headers, where it matters.
      const std::size_t header = std::min<std::size_t>(message.size(), 40);
      message[rng_.below(header)] = static_cast<std::byte>(rng_.next());
    }
    return std::make_shared<const std::vector<std::byte>>(std::move(message));
  }
  void update_membership() {
    membership_changed_ = false;
    int top = -1;
    for (const Member& member : members_) {
      for (int rank = 0; rank < static_cast<int>(config_.layers); ++rank) {
        if (member.joined[static_cast<std::size_t>(rank)]) top = std::max(top, rank);
      }
    }
    if (top == top_) return;
    top_ = top;
    sender_->membership(now_, top);
    sender_->send_released(now_);
  }
  void step() {
    while (!events_.empty() && events_.top().at <= now_) {
      const Event event = events_.top();
      events_.pop();
      if (event.to == kSender) {
        sender_->receive(now_, {*event.message, event.ip_length, false, event.from});
        sender_->send_released(now_);
      } else if (members_[event.to].alive) {
        members_[event.to].driver->receive(
            clock(event.to), {*event.message, event.ip_length, false, 0}, std::nullopt);
        watch(event.to);
      }
    }
    while (!timers_.empty() && timers_.top().first <= now_) {
      const unsigned i = timers_.top().second;
      timers_.pop();
      members_[i].watched = Time::never();
      if (!members_[i].alive) continue;
      members_[i].driver->run(clock(i));
      // Stricter than the contract, which allows a few calls at the same instant.
      ASSERT_GT(members_[i].driver->next_call(), clock(i)) << "a timer that never ends";
      watch(i);
    }
    if (membership_changed_) update_membership();
    sender_->run(now_);
    ASSERT_GT(sender_->next_timer(), now_) << "a timer that never ends";
  }

  const RigConfig config_;
  Rng rng_;
  Time now_;
  SessionConfig session_;
  std::optional<SenderDriver<Rig, CappedPacing>> sender_;
  std::deque<Member> members_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  using Timer = std::pair<Time, unsigned>;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::uint64_t next_order_ = 0;
  int top_ = -1;
  bool membership_changed_ = false;
  std::uint64_t feedback_ = 0;
  std::uint64_t controls_ = 0;
  std::vector<std::vector<std::byte>> heard_;
};

}  // namespace tiercast
