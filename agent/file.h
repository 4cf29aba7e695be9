// The files that reliable transfers read and write.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.h"

namespace tiercast::agent {

// What a file has when the object is made. It is in memory, not mapped: whoever can write to the
// file could otherwise change what is sent, or end the program by cutting the file short.
class FileContents {
 public:
  // With a `root`, only a file below this folder: the path is relative to it, or begins with it,
  // and no symbolic link or ".." on the way leads out. ConfigError: it cannot be read, is not a
  // regular file, is empty, or takes more than half of the memory that is available.
  explicit FileContents(const std::string& path, const std::string& root = "");

  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

// Creates an empty file to write to and read, or truncates the file of that name. ConfigError: it
// cannot be created.
UniqueFd create_file(const std::string& path);

}  // namespace tiercast::agent
