// The figures of a port's streams, added up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/receiver/port/port_analyser.h"
#include "dataplane/streams/stream_table.h"

namespace tiercast::receiver {

struct Totals {
  std::uint64_t streams = 0;              // that have received something
  std::uint64_t silent = 0;               // joined, and nothing received
  std::uint64_t received = 0, bytes = 0;  // data packets, IP bytes
  std::uint64_t lost = 0, duplicates = 0, reordered = 0, stale = 0, restarts = 0, marked = 0;
  std::uint64_t extent_max = 0;
};
Totals totals_of(const streams::StreamTable& table);

// Of a tiercast group: its session and rank; others have none.
struct Layer {
  std::uint16_t session = 0;
  std::uint8_t rank = 0;
};
std::optional<Layer> layer_of(std::uint32_t group);
// "3/2" (session/rank), or the group's address.
std::string stream_name(const streams::Stream& stream);
// "net_af_packet0 (h0-eth0)"
std::string port_name(const dpdk::Port& port);

// Lost packets as a share of those that were to arrive; 0 if none were.
double loss_ratio(std::uint64_t lost, std::uint64_t in_order_and_reordered);

}  // namespace tiercast::receiver
