#include "dataplane/switch/bench/main.h"

#include <cstdio>
#include <exception>

#include "base/text_file.h"

namespace tiercast::bench {

int run_main(const char* name, int argc, char** argv, int (*run)(int, char**)) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 2;
  }
}

std::shared_ptr<const engine::Program> load_program(const std::string& path) {
  return engine::Program::load(read_text_file(path).text, path);
}

}  // namespace tiercast::bench
