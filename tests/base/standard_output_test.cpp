#include "base/standard_output.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace tiercast {
namespace {

// What a program of this name ends with that has written to `path`. For a process of its own.
[[noreturn]] void write_and_end(const char* path, bool flushes, int status) {
  if (std::freopen(path, "w", stdout) == nullptr) std::_Exit(99);
  std::fputs("a result\n", stdout);
  if (flushes) std::fflush(stdout);
  std::_Exit(end_output("program", status));
}

TEST(StandardOutput, WhatIsWrittenChangesNoStatus) {
  EXPECT_EXIT(write_and_end("/dev/null", false, 0), testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(write_and_end("/dev/null", true, 3), testing::ExitedWithCode(3), "^$");
}

TEST(StandardOutput, WhatCannotBeWrittenIsStatus1) {
  EXPECT_EXIT(write_and_end("/dev/full", false, 0), testing::ExitedWithCode(1),
              "^program: standard output: No space left on device\n$");
  EXPECT_EXIT(write_and_end("/dev/full", false, 3), testing::ExitedWithCode(3),
              "^program: standard output: No space left on device\n$");
}

TEST(StandardOutput, WhatCouldNotBeWrittenBeforeIsRemembered) {
  EXPECT_EXIT(write_and_end("/dev/full", true, 0), testing::ExitedWithCode(1),
              "^program: standard output: not all could be written\n$");
}

}  // namespace
}  // namespace tiercast
