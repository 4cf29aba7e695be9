// What a run of tiercast-recv found, at its end: a summary for people, and JSON with everything.
// docs/analyser.md lists the fields.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/dpdk/files.h"
#include "dataplane/receiver/port/port_analyser.h"

namespace tiercast::receiver {

using Ports = std::vector<std::unique_ptr<PortAnalyser>>;

// Up to `most` streams of each port, those with the most losses first.
std::string summary(const Ports& ports, double seconds, std::size_t most = 16);

// ConfigError: a write fails.
void write_json(const Ports& ports, double seconds, const Capture* capture, dpdk::OutputFile& file);

}  // namespace tiercast::receiver
