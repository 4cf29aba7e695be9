// Preloaded into programs (LD_PRELOAD), shows them CLOCK_REALTIME of a machine whose clock is set
// while they run: what they read of it; the kernel's receive stamps (SO_TIMESTAMPNS), those of
// packets that arrived before a step as they were; and until when the kernel lets them wait
// (FUTEX_CLOCK_REALTIME, by which gRPC waits). Nobody else sees it. tests/mininet/
// test_clock_steps.py describes the file in which it is told the steps, $TIERCAST_STEPPED_CLOCK.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::size_t kSteps = 8, kPrograms = 256;

struct Step {
  std::atomic<std::int64_t> at_ns;     // of the true clock; 0: not yet known
  std::atomic<std::int64_t> ahead_ns;  // from then on, of the true clock
};
struct Shared {
  Step steps[kSteps];
  std::atomic<std::int64_t> count;                // of the programs below
  std::atomic<std::int64_t> programs[kPrograms];  // those that read a clock that had been set
  std::atomic<std::int64_t> stamps;               // receive stamps that were after a step
};

Shared* shared = nullptr;

__attribute__((constructor)) void map_shared() {
  const char* const name = std::getenv("TIERCAST_STEPPED_CLOCK");
  const int fd = name == nullptr ? -1 : open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) shared = static_cast<Shared*>(mapped);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::int64_t to_ns(const timespec& clock) { return clock.tv_sec * kSecond + clock.tv_nsec; }

// How far the clock is ahead of the true one at that instant of the true one.
std::int64_t ahead_at(std::int64_t true_ns) {
  std::int64_t ahead = 0;
  if (shared == nullptr) return ahead;
  for (const Step& step : shared->steps) {
    const std::int64_t at = step.at_ns.load();
    if (at == 0 || true_ns < at) break;
    ahead = step.ahead_ns.load();
  }
  return ahead;
}

void note_program() {
  thread_local bool noted = false;
  if (noted) return;
  noted = true;
  const std::int64_t own = getpid();
  const std::int64_t count = shared->count.load();
  for (std::int64_t i = 0; i < count; ++i) {
    if (shared->programs[i].load() == own) return;
  }
  const auto place = static_cast<std::size_t>(shared->count.fetch_add(1));
  if (place < kPrograms) shared->programs[place].store(own);
}

void set(timespec& clock) {
  const std::int64_t true_ns = to_ns(clock);
  const std::int64_t ahead = ahead_at(true_ns);
  if (ahead == 0) return;
  clock.tv_sec = (true_ns + ahead) / kSecond;
  clock.tv_nsec = (true_ns + ahead) % kSecond;
}

timespec now() {
  timespec clock{};
  clock_gettime(CLOCK_REALTIME, &clock);
  return clock;
}

int real_clock(clockid_t which, timespec* clock) {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  return real(which, clock);
}

using Syscall = long (*)(long, ...);

// Waits until `deadline` of the clock that may be set meanwhile, which is looked at so often.
long wait_until(Syscall real, const long (&a)[6], const timespec& deadline) {
  constexpr std::int64_t kLook = 50'000'000;
  while (true) {
    const std::int64_t left = to_ns(deadline) - to_ns(now());
    timespec until{};
    real_clock(CLOCK_REALTIME, &until);
    const std::int64_t until_ns = to_ns(until) + std::clamp<std::int64_t>(left, 0, kLook);
    until = {until_ns / kSecond, until_ns % kSecond};
    const long result = real(SYS_futex, a[0], a[1], a[2], &until, a[4], a[5]);
    if (result != -1 || errno != ETIMEDOUT || left <= kLook) return result;
  }
}

void set_stamps(msghdr& message) {
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SO_TIMESTAMPNS) continue;
    timespec stamp;
    std::memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
    const timespec before = stamp;
    set(stamp);
    if (std::memcmp(&before, &stamp, sizeof stamp) != 0) shared->stamps.fetch_add(1);
    std::memcpy(CMSG_DATA(item), &stamp, sizeof stamp);
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t which, timespec* clock) noexcept {
  const int result = real_clock(which, clock);
  if (result == 0 && shared != nullptr &&
      (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
    const std::int64_t true_s = clock->tv_sec;
    set(*clock);
    if (clock->tv_sec != true_s) note_program();
  }
  return result;
}

int gettimeofday(timeval* clock, void*) noexcept {
  const timespec read = now();
  *clock = {read.tv_sec, read.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t seconds = now().tv_sec;
  if (out != nullptr) *out = seconds;
  return seconds;
}

long syscall(long number, ...) noexcept {
  static const auto real = next<Syscall>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  constexpr long kTimed = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (shared != nullptr && number == SYS_futex && (a[1] & ~FUTEX_PRIVATE_FLAG) == kTimed &&
      a[3] != 0) {
    return wait_until(real, a, *reinterpret_cast<const timespec*>(a[3]));
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = next<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  const ssize_t bytes = real(fd, message, flags);
  if (bytes >= 0 && shared != nullptr) set_stamps(*message);
  return bytes;
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  static const auto real = next<int (*)(int, mmsghdr*, unsigned, int, timespec*)>("recvmmsg");
  const int received = real(fd, messages, count, flags, timeout);
  if (shared != nullptr) {
    for (int i = 0; i < received; ++i) set_stamps(messages[i].msg_hdr);
  }
  return received;
}

}  // extern "C"
