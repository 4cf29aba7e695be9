#include "dataplane/dpdk/eal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace tiercast::dpdk {
namespace {

using ::testing::HasSubstr;

TEST(DpdkEal, NamesACpuThatIsNotThereAndThoseThatAre) {
  const std::vector<unsigned> cpus{0, 1, 3};
  EXPECT_EQ(cpu_problem({"-l", "0,1", "--no-huge"}, cpus), "");
  EXPECT_EQ(cpu_problem({"-l", "0-1,3"}, cpus), "");
  EXPECT_EQ(cpu_problem({"-l0,7"}, cpus), "-l: there is no CPU 7 for this program; valid: 0, 1, 3");
  EXPECT_EQ(cpu_problem({"-l", "0-3"}, cpus),
            "-l: there is no CPU 2 for this program; valid: 0, 1, 3");
  EXPECT_EQ(cpu_problem({"--lcores", "0@0,7@1,(8,9)@(1,3)"}, cpus), "");
  EXPECT_EQ(cpu_problem({"--lcores=0@0,1@(1,7)"}, cpus),
            "--lcores: there is no CPU 7 for this program; valid: 0, 1, 3");
  EXPECT_EQ(cpu_problem({"--legacy-mem", "--log-level=7", "-l"}, cpus), "");
  EXPECT_EQ(cpu_problem({"-l", "nonsense"}, cpus), "");  // the EAL judges that
}

TEST(DpdkEal, PermissionDeniedForHugePagesNamesTheWayWithoutThem) {
  EXPECT_THAT(eal_hint(EACCES, {"--vdev=net_null0"}, 0), HasSubstr("--no-huge"));
  EXPECT_THAT(eal_hint(EACCES, {"--vdev=net_null0"}, 0), HasSubstr("reserved no huge pages"));
  EXPECT_THAT(eal_hint(ENOMEM, {"--vdev=net_null0"}, 8), HasSubstr("8 huge pages"));
  EXPECT_THAT(eal_hint(ENOMEM, {"--no-huge"}, 0), HasSubstr("-m 128"));
  EXPECT_EQ(eal_hint(EINVAL, {"--vdev=net_null0"}, 0), "");
}

}  // namespace
}  // namespace tiercast::dpdk
