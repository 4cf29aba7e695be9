#include "dataplane/receiver/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/wire/wire.h"

namespace tiercast::receiver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReceiverOptions, SessionsAreTheirGroups) {
  EXPECT_THAT(parse_sessions("3/2", ""), ElementsAre(wire::group_address(3, 2)));
  EXPECT_EQ(parse_sessions("3", "").size(), 8u);
  const auto groups = parse_sessions("0-99/1-3", "");
  EXPECT_EQ(groups.size(), 300u);
  EXPECT_EQ(groups.front(), wire::group_address(0, 1));
  EXPECT_EQ(groups.back(), wire::group_address(99, 3));
  for (const char* wrong : {"", "/", "3/", "x", "3/8", "32768", "5-3", "1-", "3/2-1", "-1", "1 "}) {
    EXPECT_THROW(parse_sessions(wrong, "--session"), ConfigError) << wrong;
  }
}

TEST(ReceiverOptions, FaultsAreNamed) {
  const auto fault = [](std::vector<std::string> own) {
    std::vector<std::string> all{"--vdev=net_null0", "--"};
    all.insert(all.end(), own.begin(), own.end());
    ReceiverOptions options;
    try {
      options.parse(all);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(fault({}), HasSubstr("--any"));
  EXPECT_THAT(fault({"--session=1"}), HasSubstr("--address"));
  EXPECT_THAT(fault({"--group=10.0.0.1", "--address=10.0.0.2"}), HasSubstr("10.0.0.1"));
  EXPECT_THAT(fault({"--any", "--address=239.1.1.1"}), HasSubstr("239.1.1.1"));
  EXPECT_THAT(fault({"--any", "--pcap-session=1"}), HasSubstr("--pcap"));
  EXPECT_THAT(fault({"--session=1", "--address=10.0.0.2", "--streams=3"}), HasSubstr("8 groups"));
  EXPECT_THAT(fault({"--any", "--duration=x"}), HasSubstr("--duration"));
  EXPECT_EQ(fault({"--any"}), "accepted");
}

}  // namespace
}  // namespace tiercast::receiver
