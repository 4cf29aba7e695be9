// The order of events. SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/event_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

namespace tiercast::ns3_runtime {
namespace {

using ::testing::ElementsAre;

class Noted final : public Event {
 public:
  Noted(int name, std::vector<int>& notes) : name_(name), notes_(notes) {}
  void run() override { notes_.push_back(name_); }

 private:
  const int name_;
  std::vector<int>& notes_;
};

class EventQueueTest : public ::testing::Test {
 protected:
  std::vector<int> run_all() {
    notes_.clear();
    while (queue_.next() != kNever) queue_.take().run();
    return notes_;
  }

  EventQueue queue_;
  std::vector<int> notes_;
  Noted a_{1, notes_}, b_{2, notes_}, c_{3, notes_};
};

TEST_F(EventQueueTest, EventsOfOneTimeRunInTheOrderInWhichTheyWereScheduled) {
  queue_.schedule(c_, 7);
  queue_.schedule(a_, 7);
  queue_.schedule(b_, 5);
  EXPECT_EQ(queue_.next(), 5);
  EXPECT_THAT(run_all(), ElementsAre(2, 3, 1));
}

TEST_F(EventQueueTest, ToScheduleAgainReplaces) {
  queue_.schedule(a_, 1);
  queue_.schedule(b_, 2);
  queue_.schedule(c_, 3);
  queue_.schedule(a_, 3);
  queue_.schedule(c_, 0);
  EXPECT_THAT(run_all(), ElementsAre(3, 2, 1));
}

TEST_F(EventQueueTest, ACancelledEventDoesNotRun) {
  queue_.schedule(a_, 1);
  queue_.schedule(b_, 2);
  queue_.cancel(a_);
  queue_.cancel(a_);  // it does not wait any more
  EXPECT_FALSE(a_.waits());
  EXPECT_EQ(queue_.next(), 2);
  EXPECT_THAT(run_all(), ElementsAre(2));
  EXPECT_EQ(queue_.next(), kNever);
}

TEST_F(EventQueueTest, IsASortedListUnderRandomChanges) {
  std::mt19937 draw(1);
  std::vector<std::unique_ptr<Noted>> events;
  std::vector<std::tuple<int, int, int>> wanted;  // time, number, event
  for (int i = 0; i < 200; ++i) events.push_back(std::make_unique<Noted>(i, notes_));
  for (int number = 0; number < 5000; ++number) {
    const int event = static_cast<int>(draw() % 200), time = static_cast<int>(draw() % 50);
    std::erase_if(wanted, [&](const auto& one) { return std::get<2>(one) == event; });
    if (draw() % 4 == 0) {
      queue_.cancel(*events[static_cast<std::size_t>(event)]);
    } else {
      queue_.schedule(*events[static_cast<std::size_t>(event)], time);
      wanted.emplace_back(time, number, event);
    }
  }
  std::sort(wanted.begin(), wanted.end());
  std::vector<int> order;
  for (const auto& one : wanted) order.push_back(std::get<2>(one));
  EXPECT_EQ(run_all(), order);
}

}  // namespace
}  // namespace tiercast::ns3_runtime
