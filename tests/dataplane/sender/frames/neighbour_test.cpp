#include "dataplane/sender/frames/neighbour.h"

#include <gtest/gtest.h>

#include "tests/dataplane/sender/samples.h"

namespace tiercast::sender {
namespace {

TEST(SenderNeighbour, AsksUntilItIsAnswered) {
  const agent::MacAddress broadcast = agent::parse_mac("ff:ff:ff:ff:ff:ff", "");
  Neighbour neighbour(kOwn, 0x0a000001, broadcast);
  std::array<std::byte, Neighbour::kFrameBytes> request;
  const Time start = Time::nanoseconds(5'000'000'000);
  ASSERT_TRUE(neighbour.ask(start, request));
  EXPECT_FALSE(neighbour.ask(start + Duration::milliseconds(999), request));
  ASSERT_TRUE(neighbour.ask(start + Duration::milliseconds(1000), request));
  EXPECT_EQ(neighbour.mac(), broadcast);
  // The neighbour answers as any host does.
  const OwnAddress gateway{agent::parse_mac("02:00:00:00:00:01", ""), 0x0a000001};
  const auto reply = answer(gateway, request);
  ASSERT_FALSE(reply.empty());
  EXPECT_TRUE(neighbour.learn(start, reply));
  EXPECT_EQ(neighbour.mac(), gateway.mac);
  EXPECT_FALSE(neighbour.ask(start + Duration::milliseconds(30'000), request));
  EXPECT_TRUE(neighbour.ask(start + Duration::milliseconds(61'000), request));
  for (std::size_t size = 0; size < reply.size(); ++size) {
    EXPECT_FALSE(neighbour.learn(start, reply.first(size)));
  }
}

}  // namespace
}  // namespace tiercast::sender
