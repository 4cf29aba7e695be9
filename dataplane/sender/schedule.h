// A dry run: what sessions would send, and when, in virtual time and without a device.
#pragma once

#include <string>
#include <vector>

#include "dataplane/sender/session_table.h"

namespace tiercast::sender {

struct ScheduleSummary {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;  // IP
  Histogram gaps;           // between successive packets of one layer
};

// Runs `requests` for `duration`, `ramp` apart in all, with every layer subscribed as asked for and
// no feedback. PREFIX.pcap gets the frames, time stamped in nanoseconds from zero; PREFIX.json the
// histogram of the gaps and every layer's packets. ConfigError: a file cannot be written, or what
// the schemes refuse.
ScheduleSummary write_schedule(const std::vector<SessionRequest>& requests,
                               const SessionTable::Settings& settings, Duration ramp,
                               Duration duration, const std::string& prefix);

}  // namespace tiercast::sender
