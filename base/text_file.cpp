#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"

namespace tiercast {

void TextFile::require_private() const {
  if ((mode & 077) == 0) return;
  std::array<char, 12> octal{};
  std::snprintf(octal.data(), octal.size(), "%03o", mode);
  throw ConfigError(path + ": others may use it, and it has keys (mode " + octal.data() +
                    "); valid: 600");
}

TextFile read_text_file(const std::string& path) {
  const auto fail = [&] { throw ConfigError(path + ": " + std::strerror(errno)); };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) fail();
  TextFile file{path, "", status.st_mode & 0777};
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t size = ::read(fd.get(), part.data(), part.size());
    if (size == 0) return file;
    if (size > 0) {
      file.text.append(part.data(), static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      fail();
    }
  }
}

}  // namespace tiercast
