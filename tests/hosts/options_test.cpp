#include "hosts/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tiercast::hosts {
namespace {

using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& arguments) {
  HostOptions options;
  try {
    options.parse(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(HostOptions, RecvTakesInterfaceAndSource) {
  HostOptions options;
  ASSERT_EQ(options.parse({"recv", "--interface", "lo", "--source", "10.0.0.2", "--id", "15"}),
            std::nullopt);
  EXPECT_EQ(options.command, Command::kReceive);
  EXPECT_EQ(options.interface, "lo");
  EXPECT_EQ(options.sender, 0x0a000002u);
  EXPECT_EQ(options.agent.session.self_id, 15u);
}

// The waits by which receivers of a group spare each other their reports are drawn from it.
TEST(HostOptions, ReceiversWithoutASeedDrawDifferentNumbers) {
  std::set<std::uint64_t> seeds;
  for (const char* id : {"15", "16", "17"}) {
    HostOptions options;
    ASSERT_EQ(options.parse({"recv", "--interface", "lo", "--source", "10.0.0.2", "--id", id}),
              std::nullopt);
    seeds.insert(options.agent.session.seed);
  }
  EXPECT_EQ(seeds.size(), 3u);
}

TEST(HostOptions, SchemesNeedsNothing) {
  HostOptions options;
  ASSERT_EQ(options.parse({"schemes"}), std::nullopt);
  EXPECT_EQ(options.command, Command::kSchemes);
}

TEST(HostOptions, CheckTakesASession) {
  HostOptions options;
  ASSERT_EQ(options.parse({"check", "--scheme", "rla", "--layers", "1"}), std::nullopt);
  EXPECT_EQ(options.command, Command::kCheck);
  EXPECT_EQ(options.scheme->name, "rla");
}

TEST(HostOptions, WrongCommandLinesEndWithStatus2) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {}, {"send"}, {"recv"}, {"recv", "--interface", "lo"}, {"schemes", "x"}}) {
    EXPECT_EQ(HostOptions().parse(arguments), 2);
  }
}

TEST(HostOptions, ErrorsNameOptionValueAndChoices) {
  EXPECT_THAT(error_of({"recv", "--interface", "none9", "--source", "10.0.0.2"}),
              AllOf(HasSubstr("--interface"), HasSubstr("none9"), HasSubstr("lo")));
  EXPECT_THAT(error_of({"recv", "--interface", "lo", "--source", "10.0.0.2", "--sha256", "12"}),
              HasSubstr("--sha256: '12' is no SHA-256"));
  EXPECT_THAT(error_of({"recv", "--interface", "lo", "--source", "10.0.0.2", "--sha256",
                        std::string(64, 'a')}),
              HasSubstr("--output, which is missing"));
  EXPECT_THAT(error_of({"recv", "--interface", "lo", "--source", "x"}),
              AllOf(HasSubstr("--source"), HasSubstr("'x'")));
}

}  // namespace
}  // namespace tiercast::hosts
