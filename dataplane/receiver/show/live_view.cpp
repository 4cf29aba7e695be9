#include "dataplane/receiver/show/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tiercast::receiver {
namespace {

using dpdk::short_number;
using dpdk::short_time;

constexpr std::size_t kWorst = 5;

}  // namespace

std::string LiveView::draw(Time now, const Ports& ports) {
  const bool again = !before_.empty();
  if (!again) first_ = last_ = now;
  before_.resize(ports.size());
  const double seconds = std::max((now - last_).seconds(), 1e-9);
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "tiercast-recv, {:.0f} s\n", (now - first_).seconds());
  fmt::format_to(out, "{:>24} {:>8} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "port",
                 "streams", "received/s", "bit/s", "lost/s", "lost", "dup", "reordered", "lat p50",
                 "lat p99");
  std::vector<const streams::Stream*> worst;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const PortAnalyser& port = *ports[i];
    Reading& before = before_[i];
    const Totals totals = totals_of(port.streams());
    const auto rate = [&](std::uint64_t count, std::uint64_t earlier) {
      const double more = static_cast<double>(count) - static_cast<double>(earlier);
      return short_number(again ? std::max(more, 0.0) / seconds : 0);
    };
    const Histogram latency = port.latency();
    fmt::format_to(
        out, "{:>24} {:>8} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        port_name(port.port()), totals.streams, rate(totals.received, before.totals.received),
        rate(totals.bytes * 8, before.totals.bytes * 8), rate(totals.lost, before.totals.lost),
        totals.lost, totals.duplicates, totals.reordered, short_time(latency.quantile(0.5)),
        short_time(latency.quantile(0.99)));
    fmt::format_to(out,
                   "{:>24} {}/s frames; {} foreign, {} malformed, {} without room, {} missed\n", "",
                   rate(port.received(), before.frames), port.fate(Fate::kForeign),
                   port.fate(Fate::kMalformed), port.fate(Fate::kNoRoom), port.port().missed());
    before = {port.received(), totals};
    for (std::uint32_t s = 0; s < port.streams().size(); ++s) {
      if (port.streams()[s].sequence.lost() > 0) worst.push_back(&port.streams()[s]);
    }
  }
  const std::size_t shown = std::min(kWorst, worst.size());
  std::partial_sort(
      worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(shown), worst.end(),
      [](const auto* a, const auto* b) { return a->sequence.lost() > b->sequence.lost(); });
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::format_to(
        out, "{:>24} lost {} of {}\n", stream_name(*worst[i]), worst[i]->sequence.lost(),
        worst[i]->sequence.lost() + worst[i]->sequence.in_order() + worst[i]->sequence.reordered());
  }
  last_ = now;
  return text;
}

}  // namespace tiercast::receiver
