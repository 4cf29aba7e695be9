// What the programs of the benchmarks share: main(), and reading a P4 program.
#pragma once

#include <memory>
#include <string>

#include "dataplane/engine/api/switch.h"

namespace tiercast::bench {

// The body of main(): calls `run` and returns its exit status. An exception is printed after
// `name`, and the status is 2.
int run_main(const char* name, int argc, char** argv, int (*run)(int argc, char** argv));

// path: bmv2's JSON. Throws std::runtime_error if it cannot be read.
std::shared_ptr<const engine::Program> load_program(const std::string& path);

}  // namespace tiercast::bench
