// The files of a reliable transfer.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/unique_fd.h"

namespace tiercast::agent {

// A file's bytes, mapped read-only for the life of the object. ConfigError: cannot be opened, is no
// regular file, or is empty.
class FileView {
 public:
  explicit FileView(const std::string& path);
  ~FileView();
  FileView(const FileView&) = delete;
  FileView& operator=(const FileView&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// An empty file to write to; one of that name is truncated. ConfigError: cannot be created.
UniqueFd create_file(const std::string& path);

}  // namespace tiercast::agent
