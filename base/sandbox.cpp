#include "base/sandbox.h"

#include <linux/sched.h>
#include <seccomp.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace tiercast {
namespace {

// What the test-suite was seen to use (strace), in tiercast-switch, tiercast-send and their DPDK
// drivers, and what the C library uses instead on other architectures and versions.
constexpr const char* kCalls[] = {
    // memory
    "brk", "madvise", "mbind", "get_mempolicy", "set_mempolicy", "membarrier", "memfd_create",
    "mincore", "mlock", "mlock2", "mlockall", "mmap", "move_pages", "mprotect", "mremap", "msync",
    "munlock", "munmap",
    // files
    "access", "chmod", "close", "close_range", "creat", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchmod", "fchmodat", "fcntl", "fdatasync", "flock",
    "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "ioctl", "lseek", "lstat",
    "mkdir", "mkdirat", "newfstatat", "open", "openat", "openat2", "pread64", "preadv", "pwrite64",
    "pwritev", "read", "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2",
    "rmdir", "stat", "statfs", "statx", "umask", "unlink", "unlinkat", "write", "writev",
    // waiting
    "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "futex", "futex_waitv",
    "gettimeofday", "nanosleep", "pipe", "pipe2", "poll", "ppoll", "pselect6", "restart_syscall",
    "sched_yield", "select", "time", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    // sockets
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "socket", "socketpair",
    // threads, signals, the process itself
    "arch_prctl", "exit", "exit_group", "get_robust_list", "getcpu", "getegid", "geteuid", "getgid",
    "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getrlimit", "getrusage",
    "gettid", "getuid", "kill", "prctl", "prlimit64", "rseq", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler", "set_robust_list", "set_tid_address", "setpriority", "sigaltstack",
    "signalfd4", "sysinfo", "tgkill", "uname", "wait4", "waitid"};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

struct Release {
  void operator()(scmp_filter_ctx filter) const { seccomp_release(filter); }
};

void check(int result, const char* what) {
  if (result < 0)
    throw std::runtime_error(std::string("the sandbox cannot be set up: ") + what + ": " +
                             std::strerror(-result) +
                             "; valid: a kernel with seccomp, or "
                             "--no-sandbox");
}

}  // namespace

void confine() {
  if (kIsSanitized) return;
  const std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) throw std::runtime_error("seccomp_init failed; valid: --no-sandbox");
  check(seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1), "threads");
  for (const char* const name : kCalls) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number < 0) continue;  // not on this architecture
    check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, number, 0), name);
  }
  // Threads, but no processes. The flags of clone3 are out of a filter's sight, so the C library is
  // told that there is none, and uses clone.
  check(seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)),
        "clone");
  check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), "clone3");
  check(seccomp_load(filter.get()), "seccomp_load");
}

}  // namespace tiercast
