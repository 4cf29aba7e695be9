#include "protocols/bench/group.h"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace tiercast::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kFullBuffers = 100;  // receivers
constexpr double kShortBuffer = 16;          // packets

double ns_since(Clock::time_point then) {
  return std::chrono::duration<double, std::nano>(Clock::now() - then).count();
}

// The time that reading the clock twice takes.
double clock_ns() {
  static const double cost = [] {
    double least = 1e9;
    for (int i = 0; i < 10'000; ++i) {
      const auto then = Clock::now();
      least = std::min(least, ns_since(then));
    }
    return least;
  }();
  return cost;
}

// Times a series of calls and counts what they allocate.
class Stretch {
 public:
  Stretch(Cost& cost, GroupCosts& costs)
      : cost_(cost), costs_(costs), allocations_(Allocations::calls()) {
    Allocations::count(true);
    then_ = Clock::now();
  }
  ~Stretch() {
    cost_.ns += std::max(0.0, ns_since(then_) - clock_ns());
    Allocations::count(false);
    costs_.allocations += Allocations::calls() - allocations_;
  }

 private:
  Cost& cost_;
  GroupCosts& costs_;
  std::uint64_t allocations_;
  Clock::time_point then_;
};

// Raises the bound that some schemes have on their members to `members`, and lowers the bound on an
// object's segments, which the bench does not use, to its minimum. Large groups get short buffers
// for out-of-order packets; otherwise 100,000 receivers of a reliable scheme would not fit into
// memory.
void allow_members(const Scheme& scheme, std::uint32_t members, Parameters& parameters) {
  for (const ParameterInfo& info : scheme.parameters) {
    const bool bound =
        info.name.ends_with(".max_children") || info.name.ends_with(".max_receivers");
    if (bound) parameters.set(info.name, std::clamp<double>(members, info.min, info.max));
    if (info.name.ends_with(".max_segments")) parameters.set(info.name, info.min);
    if (info.name.ends_with(".buffer") && members > kFullBuffers) {
      parameters.set(info.name, std::max(info.min, kShortBuffer));
    }
  }
}

}  // namespace

void Group::Source::send(Destination to, std::span<const std::byte> bytes) {
  Allocations::count(false);
  Message message = group.take_buffer();
  message.arrives = group.now_ + group.config_.delay;
  message.from = to.kind == Destination::Kind::kReceiver ? to.address - 1 : kAll;
  message.ip_length = static_cast<std::uint32_t>(bytes.size()) + kIpUdpHeaderBytes;
  message.bytes.assign(bytes.begin(), bytes.end());
  group.to_receivers_.push_back(std::move(message));
  Allocations::count(true);
}

void Group::Member::send(std::span<const std::byte> bytes) {
  Allocations::count(false);
  Message message = group->take_buffer();
  message.arrives = group->now_ + group->config_.delay;
  message.from = index;
  message.ip_length = static_cast<std::uint32_t>(bytes.size()) + kIpUdpHeaderBytes;
  message.bytes.assign(bytes.begin(), bytes.end());
  group->to_sender_.push_back(std::move(message));
  Allocations::count(true);
}

Group::Group(const Scheme& scheme, const GroupConfig& config)
    : config_(config), rng_(config.seed), receivers_(config.receivers) {
  session_.session = 1;
  session_.layers = config.layers;
  session_.seed = config.seed;
  session_.parameters = Parameters(scheme.parameters);
  allow_members(scheme, config.receivers, session_.parameters);
  const auto bytes_of = [](auto make) {
    const std::size_t before = Allocations::bytes();
    Allocations::count(true);
    auto core = make();
    Allocations::count(false);
    return std::pair(std::move(core), Allocations::bytes() - before);
  };
  auto [sender, sender_bytes] = bytes_of([&] { return scheme.make_sender(session_); });
  costs_.sender_bytes = sender_bytes;
  const Contract contract(scheme, session_);
  sender_.emplace(std::move(sender), contract, source_, SessionPacing(session_));
  watched_.assign(config.receivers, Time::never());
  for (std::uint32_t i = 0; i < config.receivers; ++i) {
    SessionConfig own = session_;
    own.self_id = i + 1;
    own.seed = config.seed * 1'000'003 + i;
    auto [core, bytes] = bytes_of([&] { return scheme.make_receiver(own); });
    receivers_[i].group = this;
    receivers_[i].index = i;
    receivers_[i].driver.emplace(std::move(core), contract, receivers_[i]);
    costs_.receiver_bytes = bytes;
  }
}

Group::Message Group::take_buffer() {
  if (buffers_.empty()) return {};
  Message message = std::move(buffers_.back());
  buffers_.pop_back();
  return message;
}

void Group::watch(std::uint32_t receiver) {
  const Time next = receivers_[receiver].driver->next_call();
  if (next >= watched_[receiver]) return;
  watched_[receiver] = next;
  timers_.push({next, receiver});
}

Time Group::next_instant() {
  Time next = sender_->next_call(now_);
  if (!to_receivers_.empty()) next = std::min(next, to_receivers_.front().arrives);
  if (!to_sender_.empty()) next = std::min(next, to_sender_.front().arrives);
  if (!timers_.empty()) next = std::min(next, timers_.top().first);
  return std::max(next, now_);
}

void Group::deliver_feedback() {
  if (to_sender_.empty() || to_sender_.front().arrives > now_) return;
  std::size_t due = 0;
  while (due < to_sender_.size() && to_sender_[due].arrives <= now_) ++due;
  {
    const Stretch stretch(costs_.sender_feedback, costs_);
    for (std::size_t i = 0; i < due; ++i) {
      const Message& message = to_sender_[i];
      sender_->receive(now_, {message.bytes, message.ip_length, false, message.from + 1});
    }
  }
  costs_.sender_feedback.calls += due;
  for (; due > 0; --due) {
    buffers_.push_back(std::move(to_sender_.front()));
    to_sender_.pop_front();
  }
}

void Group::deliver_to_receivers(const Message& message) {
  std::uint64_t calls = 0;
  {
    const Stretch stretch(costs_.receiver_packet, costs_);
    for (std::uint32_t i = 0; i < receivers_.size(); ++i) {
      if (message.from != kAll && message.from != i) continue;
      if (rng_.uniform() < config_.loss) continue;
      receivers_[i].driver->receive(now_, {message.bytes, message.ip_length, false, 1},
                                    std::nullopt);
      ++calls;
    }
  }
  costs_.receiver_packet.calls += calls;
  for (std::uint32_t i = 0; i < receivers_.size(); ++i) watch(i);
}

void Group::run_receiver_timers() {
  while (!timers_.empty() && timers_.top().first <= now_) {
    const auto [due, receiver] = timers_.top();
    timers_.pop();
    if (due != watched_[receiver]) continue;  // an earlier entry replaced this one
    watched_[receiver] = Time::never();
    ReceiverDriver<Member>& driver = *receivers_[receiver].driver;
    if (driver.next_call() <= now_) {
      const Stretch stretch(costs_.receiver_timer, costs_);
      driver.timer(now_);
      ++costs_.receiver_timer.calls;
    }
    watch(receiver);
  }
}

void Group::send_data(Time now, Rank layer) {
  Message message = take_buffer();
  message.bytes.resize(session_.packet_size - kIpUdpHeaderBytes);
  std::size_t written = 0;
  {
    const Stretch stretch(costs_.sender_data, costs_);
    written = sender_->write_data(now, layer, message.bytes);
    ++costs_.sender_data.calls;
  }
  if (written == 0) {
    buffers_.push_back(std::move(message));
    return;
  }
  message.arrives = now + config_.delay;
  message.from = kAll;
  message.ip_length = session_.packet_size;
  to_receivers_.push_back(std::move(message));
}

GroupCosts Group::run(Duration virtual_time, std::uint64_t feedback, Duration wall_time) {
  const auto began = Clock::now();
  now_ = Time::zero() + Duration::seconds(1);
  const Time start = now_;
  sender_->start(now_);
  for (std::uint32_t i = 0; i < config_.receivers; ++i) {
    receivers_[i].driver->start(now_);
    watch(i);
  }
  sender_->membership(now_, static_cast<int>(config_.layers) - 1);
  while (now_ - start < virtual_time && costs_.sender_feedback.calls < feedback &&
         ns_since(began) < static_cast<double>(wall_time.ns())) {
    now_ = next_instant();
    if (now_.is_never()) break;
    while (!to_receivers_.empty() && to_receivers_.front().arrives <= now_) {
      Message message = std::move(to_receivers_.front());
      to_receivers_.pop_front();
      deliver_to_receivers(message);
      buffers_.push_back(std::move(message));
    }
    run_receiver_timers();
    deliver_feedback();
    if (sender_->next_timer() <= now_) {
      const Stretch stretch(costs_.sender_timer, costs_);
      sender_->timer(now_);
      ++costs_.sender_timer.calls;
    }
    sender_->send_due(now_);
  }
  costs_.virtual_s = (now_ - start).seconds();
  return costs_;
}

}  // namespace tiercast::bench
