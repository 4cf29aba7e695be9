// The command line of tiercast-send: EAL arguments, "--", and its own options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/options.h"
#include "dataplane/sender/frames/sender_addresses.h"
#include "tiercast/v1/session.pb.h"

namespace tiercast::sender {

struct SenderOptions {
  agent::AgentOptions agent;
  const Scheme* scheme = nullptr;
  std::vector<std::string> eal_arguments;
  // Of these, one is for all ports, several are for each port in turn.
  std::vector<std::uint32_t> addresses;  // the sender's, host order
  std::vector<agent::MacAddress> macs;   // none: those of the devices
  std::vector<agent::MacAddress> gateway_macs;
  std::vector<std::uint32_t> gateways;  // to be resolved by ARP; none: gateway_macs are given
  // Those whose feedback is accepted; none: anybody's, or, in a lab, those that the lab names.
  std::vector<v1::Member> members;
  std::string input;  // file that a reliable scheme transfers; "": an endless stream

  static constexpr Duration kMaxQuantum = Duration::microseconds(10);
  Duration quantum = Duration::nanoseconds(100);  // see Worker::Settings
  bool poll = false;                              // never sleeps
  std::string sessions;            // file with a SessionList; "": only the session of `agent`
  std::uint32_t max_sessions = 0;  // that may run at the same time; 0: as many as the file has
  std::string payload;             // "": the pattern; a file; or "-": standard input
  std::optional<Vlan> vlan;
  Duration ramp = Duration::zero();
  std::string metrics;     // where to serve Prometheus metrics; "": nowhere
  std::string control;     // where to serve tiercast.v1.Sender; "": nowhere
  std::string input_root;  // below which its callers may name files; "": over TCP none
  bool sandbox = true;     // gives up rights once the sockets are open
  std::string dry_run;     // prefix of the files of a dry run; "": no dry run
  // Whether there may be other sessions than that of `agent`.
  bool many() const { return !sessions.empty() || max_sessions > 0 || !control.empty(); }

  // `arguments`: without the program's name. If a value is returned, the program ends with it as
  // its exit status (--help, --version, or an error was printed). ConfigError names the option, its
  // value and the choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);

  // ConfigError: an option has more values than one, but not one for each of `ports` ports.
  void check_ports(std::size_t ports) const;
  // What port number `port` writes into its packets; `device`: its own MAC address.
  SenderAddresses addresses_of(std::size_t port, const agent::MacAddress& device) const;
};

}  // namespace tiercast::sender
