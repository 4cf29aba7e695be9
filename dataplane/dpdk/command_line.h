// The command line of a program that owns DPDK ports: EAL-ARGUMENTS -- OPTIONS.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace tiercast::dpdk {

struct CommandLine {
  // `arguments`: without the program's name. Without "--" all are `own`, for --help and --version.
  explicit CommandLine(const std::vector<std::string>& arguments);
  // ConfigError, with `example` (a command), unless there was a "--".
  void require_eal_arguments(const char* example) const;

  std::vector<std::string> eal_arguments;
  std::vector<std::string> own;

 private:
  bool has_eal_arguments_ = false;
};

// Completes the help of `app`, whose name is the program's: the form of its command line, and
// `examples` at the end. Adds --version.
void add_help(CLI::App& app, const char* examples);

}  // namespace tiercast::dpdk
