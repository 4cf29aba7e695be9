// The command line that tiercast-send and tiercast-host have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocols/core/core.h"
#include "protocols/core/registry.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace tiercast::agent {

struct AgentOptions {
  std::string scheme = "sim";
  SessionConfig session;  // complete after check()
  std::string name;       // unique in a run
  std::string lab;        // address, or "": stand-alone
  std::string trace;      // file, "-", or "": none
  Duration duration = Duration::infinite();
  int realtime =
      0;  // priority of the main thread under SCHED_FIFO, 1 .. 99; 0: ordinary scheduling

  std::vector<std::string> assignments;  // of --set
  std::string duration_text;             // of --duration

  // Adds the options to `app`, which must not outlive this object.
  void add_to(CLI::App& app);

  // After parsing: resolves scheme, parameters and duration. ConfigError
  // names option, value and choices.
  const Scheme& check();
};

// Parses `arguments` (without the program's name). Empty if the program is to go on;
// otherwise --help or --version was answered (0) or an error was printed with a hint
// to --help (2): the exit status.
std::optional<int> parse_command_line(CLI::App& app, std::vector<std::string> arguments);

}  // namespace tiercast::agent
