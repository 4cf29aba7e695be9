#include "dataplane/switch/bench/main.h"

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>

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
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return engine::Program::load(std::string{std::istreambuf_iterator<char>(file), {}}, path);
}

}  // namespace tiercast::bench
