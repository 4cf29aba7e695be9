// The command line of tiercast-recv: EAL arguments, "--", and its own options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/receiver/port/port_analyser.h"
#include "protocols/base/units.h"

namespace tiercast::receiver {

struct ReceiverOptions {
  std::vector<std::string> eal_arguments;
  std::uint32_t address = 0;  // of all ports, host order
  std::vector<Subscription> join;
  bool any = false;
  int igmp_version = 3;
  std::uint32_t streams = 0;  // for each port
  Duration duration = Duration::infinite();
  bool poll = false;
  std::uint32_t packet_size = 0;  // IP bytes of the largest packet, above 1,500
  std::optional<dpdk::Vlan> vlan;
  std::string json, metrics, pcap;         // "": none
  bool insecure = false;                   // metrics beyond the loopback device
  std::vector<std::uint32_t> pcap_groups;  // sorted; empty: all
  std::string ready;                       // file that is created once all ports receive; "": none

  // `arguments`: without the program's name. If a value is returned, the program ends with it as
  // its exit status. ConfigError names the option, its value and the choices.
  std::optional<int> parse(const std::vector<std::string>& arguments);
};

// "3" (all eight layers of session 3), "3/2", "0-99/0-7": the groups' addresses.
std::vector<std::uint32_t> parse_sessions(const std::string& text, const char* option);
// "239.1.2.3" or "239.1.2.3,10.0.0.2" with a source.
Subscription parse_group(const std::string& text, const char* option);

}  // namespace tiercast::receiver
