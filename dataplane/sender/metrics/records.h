// The records of a running sender (docs/agents.md). With a single session, as in a lab: its records
// five times a second. With many sessions: the workers' records every second, and those of a
// session's layers once it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/telemetry.h"
#include "base/histogram.h"
#include "dataplane/sender/metrics/statistics.h"

namespace tiercast::sender {

class SessionRecords {
 public:
  explicit SessionRecords(agent::Telemetry& telemetry) : telemetry_(telemetry) {}

  // `second`: also write what is due once a second. `statistics` must include the layers.
  void write(const Statistics& statistics, bool second);
  // Writes the totals. After write(), once all counts are final.
  void write_totals(const Statistics& statistics);

 private:
  agent::Telemetry& telemetry_;
  Histogram late_;  // as of the last "pacer" record
  std::uint64_t dropped_ = 0;
};

class WorkerRecords {
 public:
  WorkerRecords(const std::string& name, agent::Telemetry& telemetry)
      : name_(name), telemetry_(telemetry) {}

  void write(const Statistics& statistics) { write(statistics, "pacer"); }
  void write_totals(const Statistics& statistics) { write(statistics, "pacer.final"); }
  // The final figures of sessions' layers.
  void write_ended(Time now, const std::vector<LayerStatistics>& ended);

 private:
  void write(const Statistics& statistics, const char* pacer_kind);
  void warn(const Statistics& statistics);

  const std::string name_;
  agent::Telemetry& telemetry_;
  std::vector<std::uint64_t> given_up_;
  std::vector<bool> link_up_;  // by port
};

}  // namespace tiercast::sender
