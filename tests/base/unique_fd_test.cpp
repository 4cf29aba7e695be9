#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tiercast {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWithItsLastOwner) {
  int number = -1;
  {
    UniqueFd first(open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = first.get();
    ASSERT_TRUE(is_open(number));
    const UniqueFd second(std::move(first));
    EXPECT_EQ(second.get(), number);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
  EXPECT_EQ(UniqueFd().get(), -1);
}

}  // namespace
}  // namespace tiercast
