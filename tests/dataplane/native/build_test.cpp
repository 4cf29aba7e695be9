// How native code is made and kept: the compiler as a process, the folder that others must not
// write.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "dataplane/native/cache.h"
#include "dataplane/native/native_code.h"
#include "dataplane/native/source.h"
#include "tests/dataplane/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::native {
namespace {

namespace fs = std::filesystem;

// Sets an environment variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const had = std::getenv(name)) before_ = std::make_unique<std::string>(had);
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::unique_ptr<std::string> before_;
};

class Build : public ::testing::Test {
 protected:
  Build() { cache_ = std::make_unique<Variable>("TIERCAST_CACHE", (folder_ / "cache").string()); }

  // A program that is called instead of a compiler: it has a version, and does `what`.
  std::string script(const std::string& what) {
    const fs::path path = folder_ / "compiler";
    std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = --version ] && { echo 1; exit; }\n" + what + "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  // What is in the cache besides the lock.
  std::size_t kept() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      count += entry.path().filename() != "lock";
    }
    return count;
  }

  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  std::unique_ptr<Variable> cache_;
  const std::shared_ptr<const engine::Program> program_ = engine::load_program("router");
};

TEST_F(Build, IsKeptForTheNextTime) {
  const Code first = obtain(*program_), second = obtain(*program_);
  ASSERT_NE(first.program, nullptr) << first.how;
  ASSERT_NE(second.program, nullptr) << second.how;
  EXPECT_NE(first.how.find("compiled by"), std::string::npos) << first.how;
  EXPECT_NE(second.how.find("from " + (folder_ / "cache").string()), std::string::npos)
      << second.how;
  EXPECT_EQ(kept(), 1u);
}

TEST_F(Build, WithoutACompilerNamesWhatWasTried) {
  const Variable cxx("CXX", "no-such-compiler");
  const Code code = obtain(*program_);
  EXPECT_EQ(code.program, nullptr);
  EXPECT_EQ(code.how, "no C++ compiler works; tried no-such-compiler");
}

TEST_F(Build, ShowsWhatACompilerThatFailsSays) {
  const Variable cxx("CXX", script("echo no room; exit 3"));
  const Code code = obtain(*program_);
  EXPECT_EQ(code.program, nullptr);
  EXPECT_NE(code.how.find("failed: no room"), std::string::npos) << code.how;
  EXPECT_EQ(kept(), 0u);
}

TEST_F(Build, WhoStopsItEndsTheCompilerAndItsChildren) {
  // A child of the compiler holds the pipe's end for as long as it lives.
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Variable cxx("CXX", script("sleep 1000 > " + pipe.string() + " & wait"));
  std::stop_source stop;
  std::ifstream held;
  std::jthread stopper([&] {
    held.open(pipe);  // waits until the child has opened it
    stop.request_stop();
  });
  const Code code = obtain(*program_, stop.get_token());
  EXPECT_EQ(code.how, "stopped");
  EXPECT_EQ(kept(), 0u) << "a temporary folder is left";
  stopper.join();
  EXPECT_EQ(held.get(), std::ifstream::traits_type::eof());  // returns when nobody holds it
}

TEST_F(Build, NeverUsesAFolderThatOthersCanWrite) {
  fs::create_directory(folder_ / "cache");
  ASSERT_EQ(::chmod((folder_ / "cache").c_str(), 0777), 0);
  const Code code = obtain(*program_);
  EXPECT_EQ(code.program, nullptr);
  EXPECT_EQ(code.how, (folder_ / "cache").string() + ": others can write to it");
}

TEST_F(Build, NeverUsesAFileThatOthersCanWriteOrALink) {
  ASSERT_NE(obtain(*program_).program, nullptr);
  fs::path object;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() == ".so") object = entry.path();
  }
  ASSERT_EQ(::chmod(object.c_str(), 0777), 0);
  EXPECT_FALSE(is_trusted(object));
  EXPECT_NE(obtain(*program_).how.find("compiled by"), std::string::npos) << "it is made anew";
  EXPECT_TRUE(is_trusted(object));
  fs::rename(object, folder_ / "elsewhere.so");
  fs::create_symlink(folder_ / "elsewhere.so", object);
  EXPECT_FALSE(is_trusted(object));
}

TEST_F(Build, InTheBackgroundSaysWhenItIsReady) {
  std::atomic<bool> ready = false;
  BackgroundBuild build(program_, [&] {
    ready = true;
    ready.notify_one();
  });
  ready.wait(false);
  const auto code = build.take();
  ASSERT_TRUE(code.has_value());
  EXPECT_NE(code->program, nullptr) << code->how;
  EXPECT_FALSE(build.take().has_value());
}

// Of the reference implementation's test vectors for FNV-1a with 128 bits.
TEST(Digest, IsFnv1a) {
  EXPECT_EQ(digest(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(digest("a"), "d228cb696f1a8caf78912b704e4a8964");
}

}  // namespace
}  // namespace tiercast::native
