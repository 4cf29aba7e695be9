#include "base/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace tiercast {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void drop_capabilities(std::span<const int> kept) {
  std::uint64_t mask = 0;
  for (const int one : kept) mask |= std::uint64_t{1} << one;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("PR_SET_NO_NEW_PRIVS");
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) fail("PR_CAP_AMBIENT");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) fail("capget");
  for (std::size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
    const auto part = static_cast<std::uint32_t>(mask >> (32 * i));
    data[i].permitted &= part;
    data[i].effective &= part;
    data[i].inheritable = 0;
  }
  if (::syscall(SYS_capset, &header, data) != 0) fail("capset");
}

}  // namespace tiercast
