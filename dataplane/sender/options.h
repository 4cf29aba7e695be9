// Command line of tiercast-send: EAL arguments, "--", and its own options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/options.h"
#include "dataplane/sender/sender_addresses.h"

namespace tiercast::sender {

struct SenderOptions {
  agent::AgentOptions agent;
  const Scheme* scheme = nullptr;
  std::vector<std::string> eal_arguments;
  std::uint32_t address = 0;             // the sender's, host order
  std::optional<agent::MacAddress> mac;  // none: the device's own
  agent::MacAddress gateway_mac{};
  std::uint32_t gateway = 0;  // its IPv4 address, to be asked for by ARP; 0: by gateway_mac
  std::string input;          // file that a reliable scheme transfers; "": a stream without end

  bool poll = false;               // never sleeps
  std::string sessions;            // file of a SessionList; "": the one of `agent`
  std::uint32_t max_sessions = 0;  // that may run at once; 0: those of the file
  std::string payload;             // "": the pattern; a file; "-": standard input
  std::optional<Vlan> vlan;
  Duration ramp = Duration::zero();
  std::string metrics;  // address of Prometheus's figures; "": none
  std::string control;  // address of tiercast.v1.Sender; "": none
  std::string dry_run;  // where the files of a dry run go; "": not one
  // Whether there may be other sessions than the one of `agent`.
  bool many() const { return !sessions.empty() || max_sessions > 0 || !control.empty(); }

  // `arguments`: without the program's name. A returned value is an exit status, with which the
  // program ends (--help, --version, or an error was printed). ConfigError names option, value and
  // choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);
};

}  // namespace tiercast::sender
