#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/base/units.h"
#include "protocols/core/registry.h"
#include "protocols/wire/wire.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

Parameters sim_parameters() { return Parameters(find_scheme("sim").parameters); }

TEST(Registry, NamesAndNumbersAreOnce) {
  std::set<std::string_view> names;
  std::set<unsigned> numbers;
  for (const Scheme& scheme : schemes()) {
    EXPECT_TRUE(names.insert(scheme.name).second) << scheme.name;
    EXPECT_TRUE(numbers.insert(scheme.id).second) << scheme.name << " has " << unsigned{scheme.id};
  }
}

TEST(Parameters, TakeNumbersAndUnits) {
  Parameters p = sim_parameters();
  p.set("sim.delta=0.5");
  EXPECT_DOUBLE_EQ(p.get("sim.delta"), 0.5);
  p.set("sim.increase=20kbit/s");
  EXPECT_DOUBLE_EQ(p.get("sim.increase"), 20e3);
  p.set("sim.increase=1000");
  EXPECT_DOUBLE_EQ(p.get("sim.increase"), 1000);
  p.set("sim.menu_interval=500ms");
  EXPECT_DOUBLE_EQ(p.get("sim.menu_interval"), 0.5);
}

TEST(Parameters, AreReadAsTheTypeOfTheirSetting) {
  Parameters p = sim_parameters();
  p.set("sim.increase=20kbit/s");
  p.set("sim.menu_interval=500ms");
  p.set("sim.cumulative=0");
  EXPECT_EQ(p.get<Rate>("sim.increase"), Rate::kbit_per_second(20));
  EXPECT_EQ(p.get<Duration>("sim.menu_interval"), Duration::milliseconds(500));
  EXPECT_FALSE(p.get<bool>("sim.cumulative"));
  EXPECT_EQ(p.get<unsigned>("sim.drop_after"), 24u);
  EXPECT_EQ(p.get<double>("sim.delta"), 0.965);
}

TEST(Parameters, AListEntrySaysByItsTypeWhetherItIsWhole) {
  enum class Mode { kA, kB };
  const auto whole = []<class T>(T) {
    return parameter<T>("x.y", 0, 0, 1, "", UsedBy::kBoth, "", "").whole;
  };
  EXPECT_TRUE(whole(true) && whole(1u) && whole(Mode::kA));
  EXPECT_FALSE(whole(1.0) || whole(Rate::zero()) || whole(Duration::zero()));
}

TEST(Parameters, AFractionIsRefusedWhereAWholeNumberIsNeeded) {
  Parameters p = sim_parameters();
  EXPECT_EQ(error_of([&] { p.set("sim.drop_after=2.5"); }),
            "parameter sim.drop_after = 2.5 is not a whole number: valid 1 to 1000 notifications");
  EXPECT_EQ(error_of([&] { p.set("sim.cumulative=0.5"); }),
            "parameter sim.cumulative = 0.5 is not a whole number: valid 0 to 1");
  p.set("sim.drop_after=3.0");
  EXPECT_EQ(p.get<unsigned>("sim.drop_after"), 3u);
}

TEST(Parameters, UnknownNamesListTheValidOnes) {
  Parameters p = sim_parameters();
  EXPECT_THAT(
      error_of([&] { p.set("sim.dleta=0.5"); }),
      AllOf(HasSubstr("'sim.dleta'"), HasSubstr("sim.delta"), HasSubstr("sim.max_children")));
}

TEST(Parameters, OutOfRangeGivesTheRange) {
  Parameters p = sim_parameters();
  EXPECT_THAT(error_of([&] { p.set("sim.delta=1.5"); }),
              AllOf(HasSubstr("sim.delta = 1.5"), HasSubstr("0.1 to 0.999")));
  EXPECT_THAT(error_of([&] { p.set("sim.delta", std::numeric_limits<double>::quiet_NaN()); }),
              HasSubstr("out of range"));
}

TEST(Parameters, WhatIsNoAssignmentIsRefused) {
  Parameters p = sim_parameters();
  for (const char* text :
       {"sim.delta", "sim.delta=", "sim.delta=x", "sim.delta=0.5s", "sim.delta=nan", "=1"}) {
    EXPECT_THROW(p.set(text), ConfigError) << text;
  }
}

TEST(Parameters, ThoseThatHaveToRiseAreNamedWithTheirValues) {
  Parameters p = sim_parameters();
  const auto check = [&p] {
    p.require_rising({"sim.min_rate", "sim.initial_rate", "sim.max_rate"});
  };
  EXPECT_EQ(error_of(check), "no error");
  p.set("sim.min_rate=300kbit/s");
  EXPECT_EQ(error_of(check), "no error");
  p.set("sim.min_rate=2Mbit/s");
  EXPECT_EQ(error_of(check),
            "sim.min_rate 2Mbit/s, sim.initial_rate 300kbit/s, sim.max_rate 100Mbit/s: "
            "each must be at least the one before");
}

TEST(Parameters, EveryDefaultIsInsideItsRangeAndHasASource) {
  for (const Scheme& scheme : schemes()) {
    for (const ParameterInfo& info : scheme.parameters) {
      EXPECT_GE(info.fallback, info.min) << info.name;
      EXPECT_LE(info.fallback, info.max) << info.name;
      EXPECT_FALSE(info.purpose.empty()) << info.name;
      EXPECT_FALSE(info.source.empty()) << info.name;
      EXPECT_FALSE(name(info.used_by).empty()) << info.name;
      const double sum = info.fallback + info.min + info.max;
      EXPECT_TRUE(!info.whole || sum == std::floor(sum)) << info.name;
      EXPECT_TRUE(info.name.starts_with(std::string(scheme.name) + ".")) << info.name;
    }
  }
}

TEST(Registry, UnknownSchemesListTheKnownOnes) {
  EXPECT_EQ(find_scheme("sim").id, 1);
  EXPECT_THAT(error_of([] { find_scheme("tcp"); }), AllOf(HasSubstr("'tcp'"), HasSubstr("sim")));
}

// What a scheme from outside the tree may say wrongly of itself; a wrong default would hold in
// every run that does not set the parameter.
TEST(Registry, ASchemeThatContradictsItselfIsRefused) {
  const Scheme& sim = find_scheme("sim");
  EXPECT_EQ(checked("sim", sim).name, "sim");
  EXPECT_THAT(error_of([&] { checked("aimd", sim); }),
              AllOf(HasSubstr("scheme aimd"), HasSubstr("'sim'"), HasSubstr("its folder")));
  const auto said_of = [&](ParameterInfo info, ParameterInfo second) {
    const ParameterInfo both[] = {info, second};
    Scheme scheme = sim;
    scheme.parameters = both;
    return error_of([&] { checked("sim", scheme); });
  };
  const ParameterInfo good{"sim.a", 1, 0, 2, "s", UsedBy::kBoth, "", ""};
  ParameterInfo other = good;
  EXPECT_THAT(said_of(good, other), HasSubstr("'sim.a' is there twice"));
  other.name = "sum.b";
  EXPECT_THAT(said_of(good, other), HasSubstr("'sum.b'; valid: sim."));
  other.name = "sim.b";
  EXPECT_EQ(said_of(good, other), "no error");
  other.fallback = 3;
  EXPECT_THAT(said_of(good, other), AllOf(HasSubstr("sim.b = 3"), HasSubstr("0 to 2 s")));
  Scheme half = sim;
  half.make_receiver = nullptr;
  EXPECT_THAT(error_of([&] { checked("sim", half); }), HasSubstr("make_receiver is missing"));
  const std::string_view records[] = {"round"};
  Scheme unnamed = sim;
  unnamed.records = records;
  EXPECT_THAT(error_of([&] { checked("sim", unnamed); }), HasSubstr("'round'; valid: sim."));
}

TEST(Registry, WrongConfigsAreRefusedWithTheMember) {
  const Scheme& sim = find_scheme("sim");
  SessionConfig config;
  config.layers = 5;
  config.parameters = Parameters(sim.parameters);
  EXPECT_NE(sim.make_sender(config), nullptr);
  EXPECT_NE(sim.make_receiver(config), nullptr);
  config.layers = 9;
  EXPECT_THAT(error_of([&] { sim.make_sender(config); }),
              AllOf(HasSubstr("layers = 9"), HasSubstr("1 to 8")));
  config.layers = 0;
  EXPECT_THAT(error_of([&] { sim.make_receiver(config); }), HasSubstr("layers = 0"));
  config.layers = 5;
  config.session = 40000;
  EXPECT_THAT(error_of([&] { sim.make_sender(config); }), HasSubstr("session = 40000"));
  config.session = 1;
  config.packet_size = 50;
  EXPECT_THAT(error_of([&] { sim.make_sender(config); }), HasSubstr("packet_size = 50"));
  config.packet_size = 1000;
  config.parameters.set("sim.initial_rate=1Mbit/s");
  config.parameters.set("sim.min_rate=2Mbit/s");
  EXPECT_THAT(error_of([&] { sim.make_sender(config); }), HasSubstr("sim.min_rate 2Mbit/s"));
}

// A lab makes a table for each kind of record, and accepts no others.
TEST(Registry, EverySchemeListsItsRecords) {
  for (const Scheme& scheme : schemes()) {
    const std::string prefix = std::string(scheme.name) + ".";
    EXPECT_FALSE(scheme.records.empty()) << scheme.name;
    for (const std::string_view kind : scheme.records) {
      EXPECT_TRUE(kind.starts_with(prefix)) << kind;
      EXPECT_EQ(kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", prefix.size()),
                std::string_view::npos)
          << kind;
    }
  }
}

// Runtimes distinguish sessions by it before a core sees a message.
TEST(Registry, EverySchemeWritesItsOwnId) {
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(std::string(scheme.name));
    SessionConfig config;
    config.parameters = Parameters(scheme.parameters);
    RecordingSink sink;
    const auto sender = scheme.make_sender(config);
    sender->start(Time::zero(), sink);
    sender->membership(Time::zero(), 0, sink);
    std::vector<std::byte> message(972);
    // Window-based schemes may have nothing to send before they have heard of a receiver.
    if (sender->write_data(Time::zero(), 0, message) == 0) continue;
    wire::CommonHeader header;
    ASSERT_EQ(wire::parse_common(message, header), wire::Error::kOk);
    EXPECT_EQ(static_cast<std::uint8_t>(header.scheme), scheme.id);
  }
}

}  // namespace
}  // namespace tiercast
