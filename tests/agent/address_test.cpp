#include "agent/address.h"

#include <gtest/gtest.h>

#include "protocols/base/units.h"

namespace tiercast::agent {
namespace {

TEST(AgentAddress, Ipv4TextIsReadAndWritten) {
  EXPECT_EQ(parse_ipv4("10.0.0.2", "--address"), 0x0a000002u);
  EXPECT_EQ(format_ipv4(0xefc0000b), "239.192.0.11");
}

TEST(AgentAddress, MacTextIsReadAndWritten) {
  const MacAddress mac = parse_mac("02:00:00:aB:00:0f", "--mac");
  EXPECT_EQ(mac[3], std::byte{0xab});
  EXPECT_EQ(format_mac(mac), "02:00:00:ab:00:0f");
}

TEST(AgentAddress, WrongTextNamesOptionValueAndForm) {
  for (const char* text : {"", "10.0.0", "10.0.0.256", "h0", "10.0.0.2 "}) {
    EXPECT_THROW(parse_ipv4(text, "--address"), ConfigError) << text;
  }
  for (const char* text : {"", "02:00:00:00:00", "02-00-00-00-00-01", "02:00:00:00:00:0g",
                           "02:00:00:00:00:011", "2:00:00:00:00:001"}) {
    EXPECT_THROW(parse_mac(text, "--mac"), ConfigError) << text;
  }
  try {
    parse_mac("x", "--gateway-mac");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "--gateway-mac: 'x' is not a MAC address such as 02:00:00:00:00:0f");
  }
}

// RFC 1112 6.4: the low 23 bits; 32 groups share one address.
TEST(AgentAddress, MulticastMacTakesTheLow23BitsOfTheGroup) {
  EXPECT_EQ(format_mac(multicast_mac(0xefc0000b)), "01:00:5e:40:00:0b");
  EXPECT_EQ(format_mac(multicast_mac(0xefffffff)), "01:00:5e:7f:ff:ff");
  EXPECT_EQ(multicast_mac(0xe0000001), multicast_mac(0xef800001));
}

}  // namespace
}  // namespace tiercast::agent
