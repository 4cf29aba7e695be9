#include "agent/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "protocols/base/units.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::agent {
namespace {

using testing::HasSubstr;

class AgentFile : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string error() const {
    try {
      const FileContents contents(path_);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(AgentFile, WhatWasReadStaysWhateverBecomesOfTheFile) {
  const std::string text(100'000, 'a');
  const auto is_whole = [&](const FileContents& contents) {
    const auto bytes = contents.bytes();
    return bytes.size() == text.size() &&
           std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{'a'}; });
  };
  write(text);
  const FileContents contents(path_);
  EXPECT_TRUE(is_whole(contents));
  // The same file with other bytes, then without any.
  std::fstream(path_, std::ios::in | std::ios::out) << std::string(50'000, 'b');
  EXPECT_TRUE(is_whole(contents));
  std::filesystem::resize_file(path_, 0);
  EXPECT_TRUE(is_whole(contents));
}

TEST_F(AgentFile, WhatMemoryCannotHoldIsRefused) {
  write("a");
  std::filesystem::resize_file(path_, std::uintmax_t{1} << 42);  // 4 TB, none of it on the disk
  EXPECT_THAT(error(), HasSubstr(path_ + ": 4398046511104 bytes, which are read into memory; "
                                         "valid: up to "));
}

TEST_F(AgentFile, FaultsAreNamed) {
  EXPECT_EQ(error(), path_ + ": No such file or directory");
  write("");
  EXPECT_THAT(error(), HasSubstr("the file is empty"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error(), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace tiercast::agent
