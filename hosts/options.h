// The command line of tiercast-host: a subcommand and its options.
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
  std::uint32_t sender = 0;  // IPv4 address, host order
  std::string output;        // file for the object that a reliable scheme delivers; "": none

  // `arguments`: without the program's name. If a value is returned, the program ends with it as
  // its exit status (--help, --version, or an error was printed). ConfigError names the option, its
  // value and the choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);
};

}  // namespace tiercast::hosts
