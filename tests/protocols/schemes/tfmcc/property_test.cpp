// TFMCC in a hostile network, over seeds; see hostile.h.
#include <gtest/gtest.h>

#include "tests/protocols/rigs/hostile.h"

namespace tiercast {
namespace {

class TfmccProperties : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TfmccProperties, SurvivesBadWeather) {
  survives_bad_weather("tfmcc", {"tfmcc.max_rate=2Mbit/s"}, GetParam(), Rate::mbit_per_second(2));
}

TEST_P(TfmccProperties, SurvivesBadWeatherWithItsOptions) {
  survives_bad_weather("tfmcc", {"tfmcc.max_rate=2Mbit/s", "tfmcc.ecn=1", "tfmcc.later_packets=1"},
                       GetParam() + 100, Rate::mbit_per_second(2));
}

INSTANTIATE_TEST_SUITE_P(Seeds, TfmccProperties, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace tiercast
