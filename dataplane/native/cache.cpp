#include "dataplane/native/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace tiercast::native {

namespace fs = std::filesystem;

namespace {

fs::path absolute_from(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value == '/' ? fs::path(value) : fs::path();
}

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

}  // namespace

fs::path cache_folder() {
  if (const fs::path set = absolute_from("TIERCAST_CACHE"); !set.empty()) return set;
  if (const fs::path xdg = absolute_from("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "tiercast";
  const fs::path home = absolute_from("HOME");
  return home.empty() ? home : home / ".cache" / "tiercast";
}

std::string prepare_folder(const fs::path& folder) {
  if (folder.empty()) return "no cache folder: TIERCAST_CACHE, XDG_CACHE_HOME and HOME are not set";
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return folder.string() + ": " + std::strerror(errno);
  }
  struct stat status{};
  if (::lstat(folder.c_str(), &status) != 0) return folder.string() + ": " + std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return folder.string() + ": not a folder";
  if (status.st_uid != ::geteuid()) return folder.string() + ": belongs to another user";
  if ((status.st_mode & kOthersWrite) != 0) return folder.string() + ": others can write to it";
  return {};
}

bool is_trusted(const fs::path& file) {
  struct stat status{};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & kOthersWrite) == 0;
}

FileLock::FileLock(const fs::path& file)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool FileLock::try_lock() {
  return fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace tiercast::native
