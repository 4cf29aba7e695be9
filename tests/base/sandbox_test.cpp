#include "base/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "base/privileges.h"

namespace tiercast {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_WHERE_SANITIZED GTEST_SKIP() << "sanitizers need calls that it forbids"
#else
#define SKIP_WHERE_SANITIZED static_cast<void>(0)
#endif

// A line of /proc/thread-self/status.
std::string status(const std::string& name) {
  std::ifstream file("/proc/thread-self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return line.substr(line.find_last_of("\t ") + 1);
  return {};
}

// Each of these runs in a process of its own, which ends with 0 if `wrong` stays empty. What is
// given up does not come back.
template <class Body>
void expect_in_process(const Body& body) {
  EXPECT_EXIT(
      {
        const std::string wrong = body();
        if (!wrong.empty()) fprintf(stderr, "%s\n", wrong.c_str());
        _exit(wrong.empty() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

std::string refused(const char* what, long result) {
  return result == -1 && errno == EPERM ? "" : std::string(what) + " is not refused; ";
}

TEST(Sandbox, NothingElseIsExecuted) {
  SKIP_WHERE_SANITIZED;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_in_process([] {
    drop_capabilities({});
    confine();
    char name[] = "/bin/true";
    char* const arguments[] = {name, nullptr};
    std::string wrong = refused("execve", ::execv(name, arguments));
    wrong += refused("fork", ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    wrong += refused("ptrace", ::ptrace(PTRACE_TRACEME, 0, 0, 0));
    wrong += refused("unshare", ::unshare(CLONE_NEWUSER));
    wrong += refused("mount", ::syscall(SYS_mount, "none", "/mnt", "tmpfs", 0, 0));
    return wrong;
  });
}

TEST(Sandbox, HoldsForThreadsThatRunAlready) {
  SKIP_WHERE_SANITIZED;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_in_process([] {
    int ready[2], ended[2];
    if (::pipe(ready) != 0 || ::pipe(ended) != 0) return std::string("no pipes");
    std::string wrong;
    std::thread before([&] {
      char byte = 0;
      if (::write(ended[1], &byte, 1) != 1 || ::read(ready[0], &byte, 1) != 1) wrong = "no byte";
      wrong += refused("unshare", ::unshare(CLONE_NEWUSER));
    });
    char byte = 0;
    if (::read(ended[0], &byte, 1) != 1) wrong = "no byte";
    drop_capabilities({});
    confine();
    if (::write(ready[1], &byte, 1) != 1) wrong += "no byte";
    before.join();
    return wrong;
  });
}

TEST(Sandbox, ThreadsAndFilesWorkOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_in_process([] {
    drop_capabilities({});
    confine();
    std::string read;
    std::thread later([&] { std::getline(std::ifstream("/proc/self/comm"), read); });
    later.join();
    return read.empty() ? std::string("no file") : std::string();
  });
}

TEST(Sandbox, OnlyTheKeptCapabilitiesStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_in_process([] {
    drop_capabilities(std::array{CAP_DAC_OVERRIDE});
    std::string wrong;
    for (const char* const set : {"CapPrm", "CapEff"}) {
      const auto mask = std::stoull(status(set), nullptr, 16);
      if ((mask & ~(1ull << CAP_DAC_OVERRIDE)) != 0) wrong += std::string(set) + " " + status(set);
    }
    if (status("NoNewPrivs") != "1") wrong += "NoNewPrivs";
    // Of a thread that is started afterwards, too.
    std::thread later([&] {
      if (std::stoull(status("CapEff"), nullptr, 16) & (1ull << CAP_NET_RAW)) wrong += "a thread";
    });
    later.join();
    return wrong;
  });
}

}  // namespace
}  // namespace tiercast
