#include "agent/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>

#include "protocols/base/units.h"

namespace tiercast::agent {
namespace {

// Non-blocking, because a pipe without a writer would make open() wait.
constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// The kernel itself keeps the whole way below `root`, so nobody can change it in between.
UniqueFd open_below(const std::string& path, const std::string& root) {
  const UniqueFd folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0)
    throw ConfigError(fmt::format("--input-root {}: {}", root, std::strerror(errno)));
  const std::string prefix = root.ends_with('/') ? root : root + '/';
  std::string below = path;
  // ROOT//x is below it, too, but by itself /x is not.
  if (path.starts_with(prefix)) below.erase(0, path.find_first_not_of('/', prefix.size()));
  open_how how{};
  how.flags = kReading;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(
      static_cast<int>(syscall(SYS_openat2, folder.get(), below.c_str(), &how, sizeof how)));
  if (fd.get() < 0 && errno == EXDEV)
    throw ConfigError(fmt::format("{}: not below --input-root {}", path, root));
  return fd;
}

// Bytes that the kernel can give without swapping.
std::size_t available_memory() {
  std::ifstream lines("/proc/meminfo");
  std::string name;
  for (std::size_t kilobytes = 0; lines >> name >> kilobytes;) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return SIZE_MAX;
}

}  // namespace

FileContents::FileContents(const std::string& path, const std::string& root) {
  const UniqueFd fd =
      root.empty() ? UniqueFd(open(path.c_str(), kReading)) : open_below(path, root);
  struct stat status{};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) {
    throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw ConfigError(fmt::format("{}: not a regular file", path));
  }
  if (status.st_size <= 0)
    throw ConfigError(fmt::format("{}: the file is empty, so there is nothing to send", path));
  size_ = static_cast<std::size_t>(status.st_size);
  if (const std::size_t most = available_memory() / 2; size_ > most) {
    throw ConfigError(fmt::format(
        "{}: {} bytes, which are read into memory; valid: up to {}, half of what is available",
        path, size_, most));
  }
  bytes_.reset(new (std::nothrow) std::byte[size_]);
  if (bytes_ == nullptr) throw ConfigError(fmt::format("{}: no memory for its bytes", path));
  for (std::size_t at = 0; at < size_;) {
    const ssize_t count = read(fd.get(), bytes_.get() + at, size_ - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
    if (count == 0) throw ConfigError(fmt::format("{}: it was cut short while it was read", path));
    at += static_cast<std::size_t>(count);
  }
}

UniqueFd create_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) {
    throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return fd;
}

}  // namespace tiercast::agent
