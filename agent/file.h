// The files that reliable transfers read and write.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/unique_fd.h"

namespace tiercast::agent {

// The bytes of a file, mapped read-only while the object lives.
class FileView {
 public:
  // With a `root`, only a file below this folder: the path is relative to it, or begins with it,
  // and no symbolic link or ".." on the way leads out. ConfigError: it cannot be opened, is not a
  // regular file, or is empty.
  explicit FileView(const std::string& path, const std::string& root = "");
  ~FileView();
  FileView(const FileView&) = delete;
  FileView& operator=(const FileView&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Creates an empty file to write to and read, or truncates the file of that name. ConfigError: it
// cannot be created.
UniqueFd create_file(const std::string& path);

}  // namespace tiercast::agent
