#include "agent/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace tiercast::agent {
namespace {

using testing::HasSubstr;

std::optional<int> parse(AgentOptions& options, std::vector<std::string> arguments) {
  CLI::App app("test", "agent");
  options.add_to(app);
  return parse_command_line(app, std::move(arguments));
}

TEST(AgentOptions, AllAreTaken) {
  AgentOptions options;
  ASSERT_EQ(parse(options, {"--scheme",      "sim",
                            "--session",     "7",
                            "--layers",      "3",
                            "--packet-size", "500",
                            "--id",          "15",
                            "--name",        "h15",
                            "--lab",         "unix:/x",
                            "--seed",        "9",
                            "--set",         "sim.delta=0.5",
                            "--set",         "sim.menu_interval=2",
                            "--duration",    "90s"}),
            std::nullopt);
  const Scheme& scheme = options.check();
  EXPECT_EQ(scheme.name, "sim");
  EXPECT_EQ(options.session.session, 7);
  EXPECT_EQ(options.session.layers, 3u);
  EXPECT_EQ(options.session.packet_size, 500u);
  EXPECT_EQ(options.session.self_id, 15u);
  EXPECT_EQ(options.session.seed, 9u);
  EXPECT_EQ(options.session.parameters.get("sim.delta"), 0.5);
  EXPECT_EQ(options.session.parameters.get("sim.menu_interval"), 2);
  EXPECT_EQ(options.duration, Duration::seconds(90));
  EXPECT_EQ(options.lab, "unix:/x");
}

// Otherwise a sender that is started again would go on at its old packet numbers, and receivers
// that wait for a random time would all wait equally long.
TEST(AgentOptions, WithoutASeedEachAgentDrawsItsOwn) {
  AgentOptions one, another;
  ASSERT_EQ(parse(one, {}), std::nullopt);
  ASSERT_EQ(parse(another, {}), std::nullopt);
  one.check();
  another.check();
  EXPECT_NE(one.session.seed, another.session.seed);
}

TEST(AgentOptions, WithoutDurationItRunsForEver) {
  AgentOptions options;
  ASSERT_EQ(parse(options, {}), std::nullopt);
  options.check();
  EXPECT_EQ(options.duration, Duration::infinite());
}

TEST(AgentOptions, OutOfRangeOrUnknownEndsWithStatus2) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--session", "32768"},
                                             {"--session", "-1"},
                                             {"--layers", "0"},
                                             {"--layers", "9"},
                                             {"--packet-size", "45"},
                                             {"--seed", "x"},
                                             {"--bogus"},
                                             {"--scheme"}}) {
    AgentOptions options;
    EXPECT_EQ(parse(options, arguments), 2) << arguments[0];
  }
}

TEST(AgentOptions, HelpEndsWithStatus0) {
  AgentOptions options;
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse(options, {"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("--packet-size"));
}

std::string error_of(std::vector<std::string> arguments) {
  AgentOptions options;
  EXPECT_EQ(parse(options, std::move(arguments)), std::nullopt);
  try {
    options.check();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(AgentOptions, ErrorsNameOptionValueAndChoices) {
  EXPECT_THAT(error_of({"--scheme", "sym"}),
              AllOf(HasSubstr("--scheme"), HasSubstr("sym"), HasSubstr("sim")));
  EXPECT_THAT(error_of({"--set", "sim.dleta=1"}),
              AllOf(HasSubstr("--set"), HasSubstr("sim.dleta"), HasSubstr("sim.delta")));
  EXPECT_THAT(error_of({"--set", "sim.delta=7"}), AllOf(HasSubstr("--set"), HasSubstr("7")));
  EXPECT_THAT(error_of({"--duration", "soon"}), AllOf(HasSubstr("--duration"), HasSubstr("soon")));
}

}  // namespace
}  // namespace tiercast::agent
