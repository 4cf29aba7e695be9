// The controller of a run, which is a process beside this one: it is asked at each change of
// membership, and answers with what the switches' tables are to become.
// SPDX-License-Identifier: GPL-2.0-only
//
// One line of JSON each way (docs/ns3.md); virtual time stands still meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <string>

#include "ns3/records.h"
#include "ns3/virtual_network.h"

namespace tiercast::ns3_runtime {

class ControlLink {
 public:
  // Told when a sender's highest rank changes, once the switches hold the change.
  using TopRank = std::function<void(std::uint16_t session, int top_rank)>;

  ControlLink(std::istream& answers, VirtualNetwork& network, Records& records, TopRank top_rank);

  // Reads one line of updates and applies it now. Throws ConfigError where the line is none, or a
  // switch refuses.
  void apply_next_line();
  // `host` joins or leaves: its report reaches the switch after its link's delay.
  void report(const HostSpec& host, const v1::SimulatedSession& session, Rank rank, bool joins);

 private:
  void ask(const HostSpec& host, const v1::SimulatedSession& session, Rank rank, bool joins);
  std::string read_line();
  void apply(const std::string& line);

  std::istream& answers_;
  VirtualNetwork& network_;
  Records& records_;
  TopRank top_rank_;
};

}  // namespace tiercast::ns3_runtime
