// A capture of one direction of a link, for Wireshark.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ns3/pcap-file.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

class Capture {
 public:
  // Makes the file. Throws ConfigError if it cannot.
  explicit Capture(const v1::Capture& spec);

  // `time_ns`: virtual, since the start of the run. Does nothing once the file is full. Throws
  // ConfigError if the file cannot be written.
  void add(std::int64_t time_ns, std::span<const std::byte> frame);
  // Writes what waits in memory, and closes the file. Throws ConfigError if it cannot.
  void finish();

 private:
  const std::string path_;
  const std::uint32_t snap_bytes_;
  const std::uint64_t max_bytes_;
  std::uint64_t bytes_;
  ns3::PcapFile file_;
};

}  // namespace tiercast::ns3_runtime
