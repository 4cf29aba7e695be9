// Records of what an agent does: collected in batches for the lab, and written as JSON lines to a
// file.
//
// A line is {"time_ns":…,"kind":"received","bytes":…}: CLOCK_MONOTONIC, the kind, then the fields
// as numbers. One thread calls everything.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json_row.h"
#include "protocols/core/core.h"
#include "tiercast/v1/lab.pb.h"

namespace tiercast::agent {

class Telemetry {
 public:
  // `trace`: a file (created or truncated), "-" for standard output, or "" for none. `batches`:
  // whether take_batch() will be called. ConfigError if the file cannot be opened.
  Telemetry(const std::string& trace, bool batches);

  void record(Time time, std::string_view kind, std::span<const TraceField> fields);
  void record(Time time, std::string_view kind, std::initializer_list<TraceField> fields) {
    record(time, kind, std::span(fields.begin(), fields.size()));
  }

  // Writes out the trace's buffer. std::system_error if it, or a record before, could not be
  // written.
  void flush();

  // The records since the last call, in order, and how many they are.
  v1::Records take_batch();
  int waiting() const { return batch_.records_size(); }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const;
  };

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  int lost_ = 0;  // errno, once a record could not be written
  bool batches_;
  v1::Records batch_;
  JsonRow row_;
};

}  // namespace tiercast::agent
