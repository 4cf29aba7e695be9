#include "agent/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
  const std::string below = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
  open_how how{};
  how.flags = kReading;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(
      static_cast<int>(syscall(SYS_openat2, folder.get(), below.c_str(), &how, sizeof how)));
  if (fd.get() < 0 && errno == EXDEV)
    throw ConfigError(fmt::format("{}: not below --input-root {}", path, root));
  return fd;
}

}  // namespace

FileView::FileView(const std::string& path, const std::string& root) {
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
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (at == MAP_FAILED) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  bytes_ = {static_cast<const std::byte*>(at), size};
}

FileView::~FileView() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

UniqueFd create_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) {
    throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return fd;
}

}  // namespace tiercast::agent
