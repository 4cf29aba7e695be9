// Command line of tiercast-host: a subcommand and its options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/options.h"

namespace tiercast::hosts {

enum class Command { kReceive, kSchemes, kCheck };

struct HostOptions {
  Command command = Command::kReceive;

  // kReceive and kCheck:
  agent::AgentOptions agent;
  const Scheme* scheme = nullptr;

  // kReceive:
  std::string interface;
  std::uint32_t sender = 0;  // IPv4, host order
  std::string output;        // file for what a reliable scheme delivers; "": none

  // `arguments` without the program's name. A value is an exit status: the program is not to go on
  // (--help, --version, or an error was printed). ConfigError names option, value and choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);
};

}  // namespace tiercast::hosts
