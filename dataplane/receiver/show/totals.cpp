#include "dataplane/receiver/show/totals.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/address.h"
#include "protocols/wire/wire.h"

namespace tiercast::receiver {

Totals totals_of(const streams::StreamTable& table) {
  Totals totals;
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    const streams::Stream& stream = table[i];
    const std::uint64_t received = stream.received();
    if (received == 0) {
      ++totals.silent;
      continue;
    }
    ++totals.streams;
    totals.received += received;
    totals.bytes += stream.bytes.get();
    totals.lost += stream.sequence.lost();
    totals.duplicates += stream.sequence.duplicates();
    totals.reordered += stream.sequence.reordered();
    totals.stale += stream.sequence.stale();
    totals.restarts += stream.sequence.restarts();
    totals.marked += stream.marked.get();
    totals.extent_max = std::max(totals.extent_max, stream.extent_max.get());
  }
  return totals;
}

std::optional<Layer> layer_of(std::uint32_t group) {
  const std::uint32_t offset = group - wire::kGroupBase;
  if (offset > (std::uint32_t{wire::kMaxSession} << 3 | wire::kMaxRank)) return std::nullopt;
  return Layer{static_cast<std::uint16_t>(offset >> 3), static_cast<std::uint8_t>(offset & 7)};
}

std::string stream_name(const streams::Stream& stream) {
  const auto layer = layer_of(stream.group);
  return layer ? fmt::format("{}/{}", layer->session, layer->rank)
               : agent::format_ipv4(stream.group);
}

std::string port_name(const dpdk::Port& port) {
  return port.interface().empty() ? port.device()
                                  : fmt::format("{} ({})", port.device(), port.interface());
}

double loss_ratio(std::uint64_t lost, std::uint64_t in_order_and_reordered) {
  const std::uint64_t expected = lost + in_order_and_reordered;
  return expected == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(expected);
}

}  // namespace tiercast::receiver
