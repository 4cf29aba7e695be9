#include "dataplane/accounts/accounts.h"

#include <gmock/gmock.h>

#include "tests/p4src/packet.h"

namespace tiercast::accounts {
namespace {

using namespace p4test;

// group() follows docs/wire-format.md alone.
TEST(AccountsLabel, IsOneMoreThanSessionAndRankOfTheGroup) {
  const auto label = by_group().label;
  for (const std::uint32_t session : {0u, 1u, 2u, 255u, 256u, 32767u}) {
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(label(group(session, rank)), 1 + (session * 8 + rank));
    }
  }
}

TEST(AccountsLabel, OfAnyOtherAddressIs0) {
  for (const std::string_view to : {"0.0.0.0", "10.0.1.2", "224.0.0.1", "239.191.255.255",
                                    "239.196.0.0", "238.192.0.8", "255.255.255.255"}) {
    EXPECT_EQ(by_group().label(address(to)), 0u) << to;
  }
}

}  // namespace
}  // namespace tiercast::accounts
