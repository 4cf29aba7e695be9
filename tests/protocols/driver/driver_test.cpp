// The drivers' side of the contract in core.h, with cores whose behaviour each test defines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"

namespace tiercast {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr unsigned kSessionLayers = 3;
constexpr std::string_view kRecords[] = {"trial.state"};
const Scheme kScheme{.name = "trial",
                     .id = 99,
                     .layered = true,
                     .parameters = {},
                     .records = kRecords,
                     .make_sender = nullptr,
                     .make_receiver = nullptr};

Time at(double ms) { return Time::zero() + Duration::seconds(ms / 1000); }

SessionConfig config() {
  SessionConfig result;
  result.session = 12;
  result.layers = kSessionLayers;
  return result;
}

using Log = std::vector<std::string>;

// A core of either kind. It notes each call, and runs `then` with the sink.
template <class Base>
class Trial : public Base {
 public:
  explicit Trial(Log& log) : log_(log) {}
  void start(Time, Sink& sink) override { note("start", sink); }
  void receive(Time, const Arrival&, Sink& sink) override { note("receive", sink); }
  void timer(Time now, Sink& sink) override {
    if (!stuck && next <= now) next = Time::never();
    note("timer", sink);
  }
  Time next_timer() const override { return next; }
  void stop(Time, Sink& sink) override { note("stop", sink); }

  std::function<void(Sink&)> then;  // runs once
  Time next = Time::never();
  bool stuck = false;

 protected:
  void note(const std::string& call, Sink& sink) {
    log_.push_back(call);
    if (then) std::exchange(then, nullptr)(sink);
  }

 private:
  Log& log_;
};

class TrialSender final : public Trial<SenderCore> {
 public:
  using Trial::Trial;
  void membership(Time, int top_rank, Sink& sink) override {
    note("membership " + std::to_string(top_rank), sink);
  }
  std::size_t write_data(Time, Rank, std::span<std::byte>) override { return 8; }
  std::uint64_t invalid() const override { return 0; }
};

class TrialReceiver final : public Trial<ReceiverCore> {
 public:
  using Trial::Trial;
  ReceiverCounters counters() const override { return {}; }
};

struct SenderEnd {
  SenderEnd() {
    auto made = std::make_unique<TrialSender>(log);
    core = made.get();
    driver.emplace(std::move(made), Contract(kScheme, config()), *this, SessionPacing(config()));
  }
  void send(Destination to, std::span<const std::byte>) {
    log.push_back(to.kind == Destination::Kind::kGroup ? "send to group " + std::to_string(to.rank)
                                                       : "send to receiver");
  }
  bool wants_records() const { return true; }
  void trace(Time, std::string_view kind, std::span<const TraceField>) {
    log.push_back("trace " + std::string(kind));
  }
  void depart(Time now, const Departure& departure) {
    std::array<std::byte, 8> message;
    EXPECT_EQ(driver->write_data(now, departure.layer, message), message.size());
    EXPECT_LE(departure.due, now);
    log.push_back("packet of " + std::to_string(departure.layer));
  }
  // What the driver says about a core that runs `then` when it receives something.
  std::string refusal(std::function<void(Sink&)> then) {
    core->then = std::move(then);
    try {
      driver->receive(at(1), {});
    } catch (const ContractError& error) {
      return error.what();
    }
    return "";
  }

  Log log;
  TrialSender* core = nullptr;
  std::optional<SenderDriver<SenderEnd>> driver;
};

struct ReceiverEnd {
  ReceiverEnd() {
    auto made = std::make_unique<TrialReceiver>(log);
    core = made.get();
    driver.emplace(std::move(made), Contract(kScheme, config()), *this);
  }
  void send(std::span<const std::byte>) { log.push_back("send"); }
  Time join(Rank rank) {
    log.push_back("join " + std::to_string(rank));
    return at(10);
  }
  void leave(Rank rank) { log.push_back("leave " + std::to_string(rank)); }
  void first_packet(Time, Rank rank, Duration since_join) {
    log.push_back("first of " + std::to_string(rank) + " after " +
                  std::to_string(since_join.ns() / 1'000'000) + " ms");
  }
  void deliver(std::uint64_t offset, std::span<const std::byte>) {
    log.push_back("deliver at " + std::to_string(offset));
  }
  bool wants_records() const { return true; }
  void trace(Time, std::string_view kind, std::span<const TraceField>) {
    log.push_back("trace " + std::string(kind));
  }
  std::string refusal(std::function<void(Sink&)> then) {
    core->then = std::move(then);
    try {
      driver->receive(at(1), {}, std::nullopt);
    } catch (const ContractError& error) {
      return error.what();
    }
    return "";
  }

  Log log;
  TrialReceiver* core = nullptr;
  std::optional<ReceiverDriver<ReceiverEnd>> driver;
};

TEST(SenderDriver, ACoreIsCalledBetweenStartAndStopOnly) {
  SenderEnd end;
  end.core->next = at(0);
  end.driver->receive(at(1), {});
  end.driver->run(at(1));
  end.driver->stop(at(1));
  EXPECT_TRUE(end.driver->next_call(at(1)).is_never());
  EXPECT_THAT(end.log, IsEmpty());
  end.driver->start(at(2));
  end.driver->receive(at(3), {});
  end.driver->stop(at(4));
  EXPECT_THAT(end.log, ElementsAre("start", "receive", "stop"));
  end.core->next = at(5);
  end.driver->receive(at(6), {});
  end.driver->membership(at(6), 1);
  end.driver->run(at(6));
  end.driver->stop(at(6));
  EXPECT_TRUE(end.driver->next_call(at(6)).is_never());
  EXPECT_THAT(end.log, ElementsAre("start", "receive", "stop"));
}

TEST(SenderDriver, MembershipBeforeTheStartIsHeardAfterItAndRanksAreTheSessions) {
  SenderEnd end;
  end.driver->membership(at(1), 0);
  end.driver->membership(at(1), 7);
  end.driver->start(at(2));
  end.driver->membership(at(3), -5);
  EXPECT_THAT(end.log, ElementsAre("start", "membership 2", "membership -1"));
}

TEST(SenderDriver, TheTimerIsCalledWhenItIsDueAndLateButNotEarly) {
  SenderEnd end;
  end.driver->start(at(1));
  end.core->next = at(5);
  EXPECT_EQ(end.driver->next_call(at(1)), at(5));
  end.driver->run(at(4.999));
  EXPECT_THAT(end.log, ElementsAre("start"));
  end.driver->run(at(9));
  end.driver->run(at(9));
  EXPECT_THAT(end.log, ElementsAre("start", "timer"));
}

// 1000 bytes at 1 MB/s: one packet a millisecond, the first one at once.
TEST(SenderDriver, RatesArePacedAndReleasedPacketsLeaveAtOnceFromTheBottomUp) {
  SenderEnd end;
  end.core->then = [](Sink& sink) { sink.set_rate(1, Rate::bytes_per_second(1e6)); };
  end.driver->start(at(1));
  EXPECT_EQ(end.driver->rate(1), Rate::bytes_per_second(1e6));
  EXPECT_EQ(end.driver->next_call(at(1)), at(1));
  end.driver->run(at(1));
  EXPECT_EQ(end.driver->next_call(at(1)), at(2));
  end.core->then = [](Sink& sink) {
    sink.release(2, 1);
    sink.release(0, 2);
  };
  end.driver->receive(at(1.5), {});
  EXPECT_EQ(end.driver->next_call(at(1.5)), at(1.5));
  end.driver->send_released(at(1.5));
  EXPECT_EQ(end.driver->next_call(at(1.5)), at(2));
  end.driver->run(at(2));
  EXPECT_THAT(end.log, ElementsAre("start", "packet of 1", "receive", "packet of 0", "packet of 0",
                                   "packet of 2", "packet of 1"));
}

// A message that begins with a number of 32 bits.
std::vector<std::byte> in_the_name_of(unsigned id) {
  return {std::byte{0}, std::byte{0}, std::byte{0}, static_cast<std::byte>(id)};
}

TEST(SenderDriver, FeedbackCountsOnlyFromTheAddressOfTheMemberThatItNames) {
  Scheme scheme = kScheme;
  SessionConfig of_members = config();
  of_members.members = std::make_shared<const Members>(std::vector<Member>{{9, 90}, {7, 70}});
  Log log;
  SenderEnd runtime;
  for (const bool numbered : {true, false}) {
    log.clear();
    scheme.feedback_source_at = numbered ? 8 : 0;
    SenderDriver<SenderEnd> driver(std::make_unique<TrialSender>(log), Contract(scheme, of_members),
                                   runtime, SessionPacing(of_members));
    driver.start(at(0));
    log.clear();
    const auto receive = [&](unsigned id, std::uint32_t from) {
      std::vector<std::byte> message(8);
      const auto number = in_the_name_of(id);
      message.insert(message.end(), number.begin(), number.end());
      return driver.receive(at(1), {.message = message, .from = from});
    };
    EXPECT_TRUE(receive(7, 70));
    EXPECT_TRUE(receive(9, 90));
    EXPECT_EQ(receive(7, 90), !numbered);
    EXPECT_EQ(receive(8, 70), !numbered);
    EXPECT_FALSE(receive(8, 80));
    EXPECT_FALSE(receive(7, 71));
    EXPECT_EQ(driver.refusals().impersonated, numbered ? 2u : 0u);
    EXPECT_EQ(driver.refusals().non_member, 2u);
    EXPECT_EQ(log.size(), numbered ? 2u : 4u);
    // Too short to name anybody: the core's to refuse, unless all messages do not.
    EXPECT_EQ(driver.receive(at(1), {.message = {}, .from = 80}), numbered);
  }
}

TEST(Members, ANumberHasOneAddress) {
  EXPECT_THROW(Members({{7, 70}, {8, 80}, {7, 71}}), ConfigError);
}

TEST(SenderDriver, MessagesAndRecordsReachTheRuntime) {
  SenderEnd end;
  end.core->then = [](Sink& sink) {
    sink.send(Destination::group(2), {});
    sink.send(Destination::receiver(7), {});
    sink.trace("trial.state", {});
    sink.trace("subscription", {});
  };
  end.driver->start(at(1));
  EXPECT_THAT(end.log, ElementsAre("start", "send to group 2", "send to receiver",
                                   "trace trial.state", "trace subscription"));
}

TEST(SenderDriver, WhatTheContractForbidsIsRefusedWithItsPlaceAndValue) {
  SenderEnd end;
  end.driver->start(at(0));
  const auto rate = [&](double value) {
    return end.refusal([=](Sink& s) { s.set_rate(0, Rate::bytes_per_second(value)); });
  };
  EXPECT_EQ(rate(0), "");
  for (const double value : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(rate(value), AllOf(HasSubstr("trial, session 12: set_rate"), HasSubstr("layer 0"),
                                   HasSubstr(std::to_string(value))));
  }
  EXPECT_THAT(end.refusal([](Sink& s) { s.set_rate(3, Rate::zero()); }),
              HasSubstr("set_rate: layer 3; valid: 0 to 2"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.release(3, 1); }), HasSubstr("release: layer 3"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.send(Destination::group(3), {}); }),
              HasSubstr("send: layer 3"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.send(Destination::sender(), {}); }), HasSubstr("itself"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.join(0); }), HasSubstr("join"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.leave(0); }), HasSubstr("leave"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.deliver(0, {}); }), HasSubstr("deliver"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.trace("trial.stat", {}); }),
              HasSubstr("'trial.stat' is not among the scheme's records; "
                        "valid: subscription, trial.state"));
  const TraceField field{"rtt_s", std::nan("")};
  EXPECT_THAT(end.refusal([&](Sink& s) { s.trace("trial.state", {&field, 1}); }),
              HasSubstr("'rtt_s'"));
  const std::vector<TraceField> many(Contract::kMaxTraceFields + 1, TraceField{"x", 1});
  EXPECT_THAT(end.refusal([&](Sink& s) { s.trace("trial.state", many); }), HasSubstr("65 fields"));
}

TEST(SenderDriver, HeadersLongerThanTheirPacketAreRefused) {
  SenderEnd end;
  end.driver->start(at(0));
  std::array<std::byte, 8> message;
  EXPECT_EQ(end.driver->write_data(at(1), 2, message), 8u);
  try {
    end.driver->write_data(at(1), 2, std::span(message).first(7));
    ADD_FAILURE() << "not refused";
  } catch (const ContractError& error) {
    EXPECT_STREQ(error.what(),
                 "trial, session 12: write_data: 8 bytes of headers in a packet of layer 2; "
                 "valid: 0 to 7, its length");
  }
}

TEST(SenderDriver, ATimerThatStandsStillIsRefusedBeforeItHangsARun) {
  SenderEnd end;
  end.driver->start(at(1));
  end.core->next = at(1);
  end.core->stuck = true;
  const auto turn = [&](double ms) {
    for (std::uint32_t i = 0; i < TimerWatch::kMaxCalls; ++i) end.driver->run(at(ms));
  };
  turn(2);
  turn(3);  // time has passed in between
  EXPECT_THROW(end.driver->run(at(3)), ContractError);
}

TEST(ReceiverDriver, ACoreIsCalledBetweenStartAndStopOnly) {
  ReceiverEnd end;
  end.core->next = at(0);
  end.driver->receive(at(1), {}, std::nullopt);
  end.driver->run(at(1));
  end.driver->stop(at(1));
  EXPECT_TRUE(end.driver->next_call().is_never());
  end.driver->start(at(2));
  EXPECT_EQ(end.driver->next_call(), at(0));
  end.driver->run(at(3));
  end.driver->stop(at(4));
  end.driver->receive(at(5), {}, std::nullopt);
  EXPECT_TRUE(end.driver->next_call().is_never());
  EXPECT_THAT(end.log, ElementsAre("start", "timer", "stop"));
}

// The first packet of each subscription. One that was on its way before the join does not count.
TEST(ReceiverDriver, TheFirstPacketAfterAJoinIsSaidWithItsLatency) {
  ReceiverEnd end;
  end.driver->start(at(0));
  end.driver->receive(at(9), {}, Rank{0});
  end.core->then = [](Sink& sink) {
    sink.join(0);
    sink.join(1);
  };
  end.driver->receive(at(9), {}, std::nullopt);
  EXPECT_TRUE(end.driver->joined(0) && end.driver->joined(1) && !end.driver->joined(2));
  end.log.clear();
  end.driver->receive(at(9.5), {}, Rank{0});  // joined at 10 ms
  end.driver->receive(at(30), {}, std::nullopt);
  end.driver->receive(at(35), {}, Rank{0});
  end.driver->receive(at(36), {}, Rank{0});
  EXPECT_THAT(end.log,
              ElementsAre("receive", "receive", "first of 0 after 25 ms", "receive", "receive"));
  end.log.clear();
  end.core->then = [](Sink& sink) {
    sink.leave(1);
    sink.leave(0);
    sink.join(0);
  };
  end.driver->receive(at(40), {}, std::nullopt);
  end.driver->receive(at(45), {}, Rank{1});
  end.driver->receive(at(50), {}, Rank{0});
  EXPECT_THAT(end.log, ElementsAre("receive", "leave 1", "leave 0", "join 0", "receive",
                                   "first of 0 after 40 ms", "receive"));
}

TEST(ReceiverDriver, WhatTheContractForbidsIsRefusedWithItsPlaceAndValue) {
  ReceiverEnd end;
  end.driver->start(at(0));
  EXPECT_EQ(end.refusal([](Sink& s) {
    s.join(1);
    s.send(Destination::sender(), {});
    s.deliver(5, {});
    s.trace("trial.state", {});
  }),
            "");
  EXPECT_THAT(end.log, ElementsAre("start", "receive", "join 1", "send", "deliver at 5",
                                   "trace trial.state"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.join(1); }),
              HasSubstr("trial, session 12: join: layer 1, which is already joined"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.join(3); }), HasSubstr("join: layer 3; valid: 0 to 2"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.leave(0); }), HasSubstr("leave: layer 0"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.leave(3); }), HasSubstr("leave: layer 3"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.send(Destination::group(0), {}); }), HasSubstr("send"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.set_rate(0, Rate::zero()); }), HasSubstr("set_rate"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.release(0, 1); }), HasSubstr("release"));
  EXPECT_THAT(end.refusal([](Sink& s) { s.trace("other", {}); }), HasSubstr("'other'"));
}

TEST(ReceiverDriver, ATimerThatStandsStillIsRefusedBeforeItHangsARun) {
  ReceiverEnd end;
  end.driver->start(at(1));
  end.core->next = at(1);
  end.core->stuck = true;
  for (std::uint32_t i = 0; i < TimerWatch::kMaxCalls; ++i) end.driver->run(at(2));
  EXPECT_THROW(end.driver->run(at(2)), ContractError);
}

TEST(Driver, WhatACoreThrowsNamesSchemeSessionAndCall) {
  const auto oops = [](Sink&) { throw std::runtime_error("oops"); };
  SenderEnd sender;
  sender.driver->start(at(0));
  EXPECT_EQ(sender.refusal(oops), "trial, session 12: receive threw: oops");
  ReceiverEnd receiver;
  receiver.driver->start(at(0));
  EXPECT_EQ(receiver.refusal(oops), "trial, session 12: receive threw: oops");
}

TEST(Driver, ErrorsOfTheRuntimePassAsTheyAre) {
  ReceiverEnd receiver;
  receiver.driver->start(at(0));
  receiver.core->then = [](Sink&) { throw std::system_error(EPIPE, std::generic_category()); };
  EXPECT_THROW(receiver.driver->receive(at(1), {}, std::nullopt), std::system_error);
  receiver.core->then = [](Sink&) { throw ConfigError("--file"); };
  EXPECT_THROW(receiver.driver->receive(at(2), {}, std::nullopt), ConfigError);
}

}  // namespace
}  // namespace tiercast
