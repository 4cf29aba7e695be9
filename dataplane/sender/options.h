// Command line of tiercast-send: EAL arguments, "--", and its own options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/options.h"

namespace tiercast::sender {

struct SenderOptions {
  agent::AgentOptions agent;
  const Scheme* scheme = nullptr;
  std::vector<std::string> eal_arguments;
  std::uint32_t address = 0;             // the sender's, host order
  std::optional<agent::MacAddress> mac;  // none: the device's own
  agent::MacAddress gateway_mac{};
  std::string input;  // file that a reliable scheme transfers; "": a stream without end

  // `arguments` without the program's name. A value is an exit status: the program is not to go on
  // (--help, --version, or an error was printed). ConfigError names option, value and choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);
};

}  // namespace tiercast::sender
