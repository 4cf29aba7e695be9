#include "base/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace tiercast {
namespace {

class TextFiles : public testing::Test {
 protected:
  static std::string error(const std::function<void()>& attempt) {
    try {
      attempt();
    } catch (const ConfigError& caught) {
      return caught.what();
    }
    return "";
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(TextFiles, TheWholeIsRead) {
  std::string text(200'000, 'x');
  text += '\0';
  std::ofstream(path_, std::ios::binary) << text;
  EXPECT_EQ(read_text_file(path_).text, text);
  std::ofstream(path_, std::ios::binary).flush();
  EXPECT_EQ(read_text_file(path_).text, "");
}

TEST_F(TextFiles, WhyNotIsSaid) {
  EXPECT_EQ(error([&] { read_text_file(path_); }), path_ + ": No such file or directory");
  EXPECT_EQ(error([&] { read_text_file(folder_.path()); }),
            folder_.path().string() + ": Is a directory");
}

TEST_F(TextFiles, APipeIsReadToItsEnd) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::thread writer([this] { std::ofstream(path_) << "written"; });
  EXPECT_EQ(read_text_file(path_).text, "written");
  writer.join();
}

TEST_F(TextFiles, WhoMayUseItIsOfTheFileThatWasRead) {
  std::ofstream(path_) << "secret";
  ASSERT_EQ(chmod(path_.c_str(), 0604), 0);
  const TextFile open_to_all = read_text_file(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(error([&] { read_text_file(path_).require_private(); }), "");
  EXPECT_EQ(error([&] { open_to_all.require_private(); }),
            path_ + ": others may use it, and it has keys (mode 604); valid: 600");
}

}  // namespace
}  // namespace tiercast
