// The connection to the controller of a run, which is a process of its own. It is asked at each
// change of membership, and answers with what the switches' tables should become.
// SPDX-License-Identifier: GPL-2.0-only
//
// docs/ns3.md describes questions and answers. Virtual time stands still while the answer is
// awaited.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "ns3/network/records.h"
#include "ns3/network/virtual_network.h"
#include "protocols/base/rng.h"
#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

class ControlLink {
 public:
  // Called when a sender's highest rank changes, with the time at which it learns it: when the
  // switches have been updated.
  using TopRank = std::function<void(std::int64_t at_ns, std::uint16_t session, int top_rank)>;

  // Its events are those of `process`, the kernel's for control. The answers must not take effect
  // earlier than `delay_ns` after their questions. `seed`: of the reports that links lose.
  ControlLink(google::protobuf::io::ZeroCopyInputStream& answers, LogicalProcess& process,
              std::int64_t delay_ns, VirtualNetwork& network, Records& records, std::uint64_t seed,
              TopRank top_rank);
  ~ControlLink();

  // Reads the answer that comes before the run, without a question, and applies it now. Throws
  // ConfigError if it is not valid, or if a switch refuses an update.
  void apply_first_answer();
  // `host` joins or leaves. Its report reaches the switch after the delay of its link, unless the
  // link is down or loses it; then it is repeated once, within a second. If leaves take effect
  // later, the controller says when to ask it what has expired. Called by the host's process.
  void report(const HostSpec& host, const v1::SimulatedSession& session, Rank rank, bool joins);
  // What a port sends fails to arrive, arrives again, or takes another time. Nothing else that
  // changes is reported: it moves no path. In a pause of the kernel.
  void report(const v1::PortChange& change);

 private:
  class Repeat;

  void changed(const HostSpec& host, const v1::SimulatedSession& session, Rank rank, bool joins);
  // Whether the report does.
  bool arrives(const char* what, const HostSpec& host, const v1::SimulatedSession& session,
               Rank rank);
  // `what`: "join", "leave" or "expire".
  void ask(const char* what, const HostSpec& host, const v1::SimulatedSession& session, Rank rank);
  v1::ControllerAnswer read_answer();
  // The answer to a question that is asked now, about the session, if it is about one.
  v1::ControllerAnswer question(const std::string& line, std::optional<std::uint16_t> session);
  void apply(const v1::ControllerAnswer& answer, std::int64_t at_ns);

  google::protobuf::io::ZeroCopyInputStream& answers_;
  LogicalProcess& process_;
  const std::int64_t delay_ns_;
  VirtualNetwork& network_;
  Records& records_;
  Rng rng_;
  TopRank top_rank_;
  // The last repeats of reports that were lost. A later change of the same takes their place.
  using Reported = std::tuple<const HostSpec*, const v1::SimulatedSession*, Rank>;
  std::map<Reported, std::unique_ptr<Repeat>> repeats_;
};

}  // namespace tiercast::ns3_runtime
