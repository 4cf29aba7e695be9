#include "base/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tiercast {

int end_output(const char* program, int status) {
  // What could not be written before is no longer in the buffer, and then only the mark is left.
  const bool failed_before = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !failed_before) return status;
  std::fprintf(stderr, "%s: standard output: %s\n", program,
               flushed ? "not all could be written" : std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace tiercast
