// The shared object of a program's native code: from the cache, or compiled now.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "dataplane/native/source.h"

namespace tiercast::native {

struct Object {
  std::filesystem::path path;  // empty: there is none
  std::string how;             // for a log: where it comes from, or why there is none
};

// `again`: the one in the cache cannot be loaded, so it is compiled anew. `stop` ends the compiler.
// Throws nothing.
Object make_object(const Source& source, bool again, const std::stop_token& stop);

}  // namespace tiercast::native
