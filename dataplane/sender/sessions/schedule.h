// A dry run: what sessions would send, and when, in virtual time without a device.
#pragma once

#include <string>
#include <vector>

#include "dataplane/sender/sessions/session_table.h"

namespace tiercast::sender {

struct ScheduleSummary {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;  // IP bytes
  Histogram gaps;           // between successive packets of a layer
};

// Runs `requests` for `duration`, with their starts spread over `ramp`. The layers that they ask
// for are subscribed, and there is no feedback. PREFIX.pcap gets the frames, with times in
// nanoseconds from zero. PREFIX.json gets the histogram of the gaps and the packets of every layer.
// ConfigError: a file cannot be written, or a scheme refuses a request.
ScheduleSummary write_schedule(const std::vector<SessionRequest>& requests,
                               const SessionTable::Settings& settings, Duration ramp,
                               Duration duration, const std::string& prefix);

}  // namespace tiercast::sender
