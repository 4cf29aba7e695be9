#include "dataplane/switch/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "dataplane/switch/clock.h"

namespace tiercast::vswitch {
namespace {

constexpr std::int64_t kHour = 3'600'000'000'000;

// Has events at times, each of which may send something to other members.
struct Node : Loop::Member {
  using Event = std::pair<std::int64_t, int>;  // when, and how often it is still passed on

  explicit Node(std::function<void(Node&, Event)> on_event) : handle(std::move(on_event)) {}

  void hand(Event event) {
    events.push(event);
    touch(event.first);
  }

  void readable(std::uint64_t) override {}
  std::int64_t turn(std::int64_t until_ns) override {
    for (; !events.empty() && events.top().first <= until_ns;) {
      const Event event = events.top();
      events.pop();
      handle(*this, event);
    }
    return events.empty() ? Loop::kNever : events.top().first;
  }
  void woken() override {
    if (on_wake) on_wake();
  }
  void last_turn() override {}

  std::function<void(Node&, Event)> handle;
  std::function<void()> on_wake;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
};

// Three nodes pass 30 events on among each other at random, a hundred times each, beginning a
// second ago. An event takes `delay_ns` from one to the next. Returns their times in the order in
// which they were handled.
std::vector<std::int64_t> handled_late(std::int64_t delay_ns) {
  Loop loop(kHour);
  std::mt19937 random(1);
  std::vector<std::int64_t> times;
  std::vector<Node*> nodes;
  std::promise<void> done;
  const auto pass_on = [&](Node& self, Node::Event event) {
    const auto [at_ns, left] = event;
    times.push_back(at_ns);
    if (times.size() == 3000) done.set_value();
    if (left == 0) return;
    Node* to = &self;
    while (to == &self) to = nodes[random() % nodes.size()];
    to->hand({at_ns + delay_ns, left - 1});
  };
  Node first(pass_on), second(pass_on), third(pass_on);
  nodes = {&first, &second, &third};
  for (Node* node : nodes) loop.add(*node);
  first.on_wake = [&] {
    const std::int64_t then_ns = monotonic_ns() - 1'000'000'000;
    for (int i = 0; i < 30; ++i) nodes[random() % nodes.size()]->hand({then_ns + i * 997, 99});
  };
  for (Node* node : nodes) loop.start(*node);
  loop.wake(first);
  done.get_future().wait();
  loop.stop();
  return times;
}

TEST(Loop, ALateThreadKeepsTheOrderOfLinkedMembers) {
  const std::vector<std::int64_t> times = handled_late(10'000);
  EXPECT_EQ(times.size(), 3000u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

// What takes no time may be handled late, by 10 us at most.
TEST(Loop, WithoutDelaysTheOrderIsThatOfTenMicroseconds) {
  std::int64_t latest = 0;
  for (const std::int64_t time : handled_late(7)) {
    EXPECT_GE(time, latest - 10'000);
    latest = std::max(latest, time);
  }
}

// Two members hand each other something that is due at once, for ever: a third one gets its turns.
TEST(Loop, WhatGoesRoundInACircleStopsNobody) {
  Loop loop;
  Node* other = nullptr;
  std::promise<void> turn;
  Node first([&](Node&, Node::Event event) { other->hand(event); });
  Node second([&](Node&, Node::Event event) { first.hand(event); });
  Node third([&](Node&, Node::Event) { turn.set_value(); });
  other = &second;
  for (Node* node : {&first, &second, &third}) loop.add(*node);
  first.on_wake = [&] {
    const std::int64_t now_ns = monotonic_ns();
    first.hand({now_ns, 0});
    third.hand({now_ns + 1'000'000, 0});
  };
  for (Node* node : {&first, &second, &third}) loop.start(*node);
  loop.wake(first);
  turn.get_future().wait();
  loop.stop();
}

// A member wants a turn every 10 us.
TEST(Loop, SleepsNoMoreOftenThanItMay) {
  Loop loop;
  loop.limit_sleeps(1000);
  std::promise<std::pair<long, std::int64_t>> result;
  rusage before{};
  std::int64_t began_ns = 0;
  Node node([&](Node& self, Node::Event event) {
    const std::int64_t now_ns = monotonic_ns();
    if (began_ns == 0) {
      began_ns = now_ns;
      getrusage(RUSAGE_THREAD, &before);
    } else if (now_ns - began_ns > 300'000'000) {
      rusage after{};
      getrusage(RUSAGE_THREAD, &after);
      result.set_value({after.ru_nvcsw - before.ru_nvcsw, now_ns - began_ns});
      return;
    }
    self.hand({std::max(event.first, now_ns) + 10'000, 0});
  });
  loop.add(node);
  node.on_wake = [&] { node.hand({monotonic_ns(), 0}); };
  loop.start(node);
  loop.wake(node);
  const auto [sleeps, took_ns] = result.get_future().get();
  loop.stop();
  // 100 in a row, then one a millisecond; each may fall asleep twice, as it waits for two things.
  EXPECT_LE(sleeps, 2 * (100 + took_ns / 1'000'000) + 10);
}

}  // namespace
}  // namespace tiercast::vswitch
