// A packet that was on its way for very long, or another sender's, says nothing of the path: in
// every scheme a single one whose number is far from the others leaves a receiver as it was.
#include "tests/protocols/rigs/core_rig.h"

namespace tiercast {
namespace {

class StrayPackets : public testing::TestWithParam<const Scheme*> {};

std::vector<const Scheme*> every_scheme() {
  std::vector<const Scheme*> found;
  for (const Scheme& scheme : schemes()) found.push_back(&scheme);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Schemes, StrayPackets, testing::ValuesIn(every_scheme()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST_P(StrayPackets, OneOfLongAgoIsNoLoss) {
  const Scheme& scheme = *GetParam();
  RigConfig config;
  config.scheme = scheme.name;
  config.layers = scheme.layered ? 3 : 1;
  config.packet_size = 100;
  Rig rig(config);
  rig.start();
  // By then the lowest layer has sent far more than 1024 packets.
  for (int step = 0; step < 10'000 && rig.receiver(0).counters().packets < 20'000; ++step) {
    rig.run_for(Duration::milliseconds(100));
  }
  ASSERT_GE(rig.receiver(0).counters().packets, 20'000u);
  ASSERT_EQ(rig.receiver(0).counters().lost, 0u);
  const auto is_data = [](const std::vector<std::byte>& message) {
    wire::CommonHeader header;
    return wire::parse_common(message, header) == wire::Error::kOk &&
           header.type == wire::Type::kData;
  };
  const auto first = std::find_if(rig.heard().begin(), rig.heard().end(), is_data);
  ASSERT_NE(first, rig.heard().end());
  rig.to_receiver(0, *first);
  rig.run_for(Duration::seconds(5));
  EXPECT_EQ(rig.receiver(0).counters().lost, 0u);
}

}  // namespace
}  // namespace tiercast
