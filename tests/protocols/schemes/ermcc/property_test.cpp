// ERMCC in a hostile network, with several seeds; see hostile.h.
#include <gtest/gtest.h>

#include "tests/protocols/rigs/hostile.h"

namespace tiercast {
namespace {

class ErmccProperties : public testing::TestWithParam<std::uint64_t> {};

TEST_P(ErmccProperties, SurvivesBadWeather) {
  survives_bad_weather("ermcc", {"ermcc.max_rate=2Mbit/s"}, GetParam(), Rate::mbit_per_second(2));
}

TEST_P(ErmccProperties, SurvivesBadWeatherWithItsOptions) {
  survives_bad_weather("ermcc",
                       {"ermcc.max_rate=2Mbit/s", "ermcc.ask_fraction=0.3", "ermcc.ecn=1",
                        "ermcc.mu_at_source=1", "ermcc.window=100ms"},
                       GetParam() + 100, Rate::mbit_per_second(2));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ErmccProperties, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace tiercast
