#include "dataplane/sender/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tiercast::sender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& arguments) {
  SenderOptions options;
  try {
    options.parse(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SenderOptions, EalArgumentsStandBeforeTheSeparator) {
  SenderOptions options;
  ASSERT_EQ(options.parse({"--vdev=net_null0", "-m", "64", "--", "--address", "10.0.0.2", "--mac",
                           "02:00:00:00:00:01", "--gateway-mac", "02:00:00:01:00:00"}),
            std::nullopt);
  EXPECT_THAT(options.eal_arguments, ElementsAre("--vdev=net_null0", "-m", "64"));
  const SenderAddresses written = options.addresses_of(0, {});
  EXPECT_EQ(written.own.ip, 0x0a000002u);
  EXPECT_EQ(agent::format_mac(written.own.mac), "02:00:00:00:00:01");
  EXPECT_EQ(agent::format_mac(written.gateway), "02:00:00:01:00:00");
  EXPECT_EQ(options.scheme->name, "sim");
}

TEST(SenderOptions, ByDefaultTheDevicesMacAndBroadcastAsNextHop) {
  SenderOptions options;
  ASSERT_EQ(options.parse({"--", "--address", "10.0.0.2"}), std::nullopt);
  const agent::MacAddress device = agent::parse_mac("02:00:00:00:00:09", "");
  EXPECT_EQ(options.addresses_of(0, device).own.mac, device);
  EXPECT_EQ(agent::format_mac(options.addresses_of(0, device).gateway), "ff:ff:ff:ff:ff:ff");
}

TEST(SenderOptions, MembersAreNumbersWithAddresses) {
  SenderOptions options;
  ASSERT_EQ(options.parse({"--", "--address", "10.0.0.2", "--member", "15=10.0.15.2",
                           "--member=16=10.0.16.2"}),
            std::nullopt);
  ASSERT_EQ(options.members.size(), 2u);
  EXPECT_EQ(options.members[1].id(), 16u);
  EXPECT_EQ(options.members[1].address(), "10.0.16.2");
  for (const std::string wrong : {"15", "=10.0.15.2", "-1=10.0.15.2", "15:10.0.15.2",
                                  "1 5=10.0.0.2", "4294967296=10.0.15.2", "15=10.0.15"}) {
    EXPECT_THAT(error_of({"--", "--address", "10.0.0.2", "--member", wrong}), HasSubstr("--member"))
        << wrong;
  }
  EXPECT_THAT(error_of({"--", "--address=10.0.0.2", "--member=15=10.0.15.2", "--lab=unix:/x"}),
              HasSubstr("a lab names the members itself"));
}

TEST(SenderOptions, SeveralPortsHaveOneValueOrOneEach) {
  SenderOptions options;
  ASSERT_EQ(options.parse({"--", "--address", "10.0.0.2", "10.0.1.2", "--gateway", "10.0.0.1",
                           "--gateway", "10.0.1.1", "--mac", "02:00:00:00:00:01"}),
            std::nullopt);
  EXPECT_NO_THROW(options.check_ports(2));
  EXPECT_EQ(options.addresses_of(1, {}).own.ip, 0x0a000102u);
  EXPECT_EQ(options.addresses_of(1, {}).gateway_ip, 0x0a000101u);
  EXPECT_EQ(options.addresses_of(1, {}).own.mac, options.addresses_of(0, {}).own.mac);
  for (const std::size_t ports : {1, 3}) {
    try {
      options.check_ports(ports);
      FAIL() << ports;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--address: 2 values for"));
    }
  }
}

TEST(SenderOptions, ErrorsNameOptionAndValue) {
  EXPECT_THAT(error_of({"--", "--address", "h0"}),
              AllOf(HasSubstr("--address"), HasSubstr("'h0'")));
  EXPECT_THAT(error_of({"--", "--address", "239.192.0.8"}), HasSubstr("multicast"));
  EXPECT_THAT(error_of({"--", "--address", "10.0.0.2", "--mac", "1"}), HasSubstr("--mac"));
  EXPECT_THAT(error_of({"--address", "10.0.0.2"}), HasSubstr("before '--'"));
  for (const char* const quantum : {"5", "-1ns", "11us"}) {
    EXPECT_THAT(error_of({"--", "--address", "10.0.0.2", "--quantum", quantum}),
                AllOf(HasSubstr("--quantum"), HasSubstr(quantum)));
  }
  EXPECT_EQ(error_of({"--", "--address", "10.0.0.2", "--quantum", "10us"}), "");
}

// With a lab, the sender accepts all that it accepts without one, except other sessions.
TEST(SenderOptions, ALabHasOneSession) {
  const std::vector<std::string> lab{"--", "--address", "10.0.0.2", "--lab", "unix:/x"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = lab;
    all.insert(all.end(), more);
    return error_of(all);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({"--poll", "--vlan=7", "--gateway=10.0.0.1", "--metrics=127.0.0.1:9464"}), "");
  for (const auto& [option, value] : {std::pair{"--max-sessions", "2"}, {"--control", "unix:/c"}}) {
    EXPECT_THAT(with({option, value}), AllOf(HasSubstr("--lab"), HasSubstr(option)));
  }
}

TEST(SenderOptions, AddressIsRequired) {
  SenderOptions options;
  EXPECT_EQ(options.parse({"--vdev=net_null0", "--"}), 2);
}

}  // namespace
}  // namespace tiercast::sender
