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
  EXPECT_EQ(options.address, 0x0a000002u);
  EXPECT_EQ(agent::format_mac(options.mac.value()), "02:00:00:00:00:01");
  EXPECT_EQ(agent::format_mac(options.gateway_mac), "02:00:00:01:00:00");
  EXPECT_EQ(options.scheme->name, "sim");
}

TEST(SenderOptions, ByDefaultTheDevicesMacAndBroadcastAsNextHop) {
  SenderOptions options;
  ASSERT_EQ(options.parse({"--", "--address", "10.0.0.2"}), std::nullopt);
  EXPECT_FALSE(options.mac.has_value());
  EXPECT_EQ(agent::format_mac(options.gateway_mac), "ff:ff:ff:ff:ff:ff");
}

TEST(SenderOptions, ErrorsNameOptionAndValue) {
  EXPECT_THAT(error_of({"--", "--address", "h0"}),
              AllOf(HasSubstr("--address"), HasSubstr("'h0'")));
  EXPECT_THAT(error_of({"--", "--address", "239.192.0.8"}), HasSubstr("multicast"));
  EXPECT_THAT(error_of({"--", "--address", "10.0.0.2", "--mac", "1"}), HasSubstr("--mac"));
  EXPECT_THAT(error_of({"--address", "10.0.0.2"}), HasSubstr("before '--'"));
}

TEST(SenderOptions, AddressIsRequired) {
  SenderOptions options;
  EXPECT_EQ(options.parse({"--vdev=net_null0", "--"}), 2);
}

}  // namespace
}  // namespace tiercast::sender
