#include "agent/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "protocols/base/units.h"

namespace tiercast::agent {

FileView::FileView(const std::string& path) {
  // Non-blocking, because a pipe without a writer would make open() wait.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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
