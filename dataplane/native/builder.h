// Makes shared objects in a process of its own. A switch starts it before it gives up the right to
// start processes (base/sandbox.h), and the compiler runs as its child.
//
// A request has a connection of its own: source in, object out. Who hangs up ends its compiler, so
// that none outlives a switch that is killed.
#pragma once

#include <stop_token>

#include "base/unique_fd.h"
#include "dataplane/native/objects.h"

namespace tiercast::native {

// The only argument of a program that is to run builder_main().
inline constexpr const char* kBuilderOption = "--native-builder";

class Builder {
 public:
  // Executes this program again, with kBuilderOption. Throws std::system_error.
  Builder();
  // Ends the process, and waits for that.
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // As native::make_object(). Any thread.
  Object make_object(const Source& source, bool again, const std::stop_token& stop) const;

 private:
  UniqueFd connection_;
  int id_ = -1;
};

// Serves the process that started this one, at standard input, until that has ended. Returns the
// exit status.
int builder_main();

}  // namespace tiercast::native
