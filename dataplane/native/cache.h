// Where compiled objects are kept. Code from there is executed, so a folder or file that others
// could have written is not used.
#pragma once

#include <filesystem>
#include <string>

namespace tiercast::native {

// $TIERCAST_CACHE, otherwise tiercast/ in $XDG_CACHE_HOME or in ~/.cache. Empty if none of these
// variables, nor $HOME, is an absolute path.
std::filesystem::path cache_folder();

// Makes the folder, for this user alone, if there is none. Says why it cannot be used: not a
// folder, another owner, or writable by others; empty: it can.
std::string prepare_folder(const std::filesystem::path& folder);

// Whether there is a regular file of this user that nobody else can write.
bool is_trusted(const std::filesystem::path& file);

// A lock that one process holds at a time, so that one compiles and the others find the result.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  // Without waiting. True if there is no lock to be had at all: then nobody can hold it.
  bool try_lock();

 private:
  int fd_ = -1;
};

}  // namespace tiercast::native
