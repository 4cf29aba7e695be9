#include "dataplane/receiver/show/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "agent/address.h"
#include "dataplane/dpdk/short_text.h"
#include "dataplane/receiver/show/totals.h"

namespace tiercast::receiver {
namespace {

using dpdk::short_number;
using dpdk::short_time;
using streams::DelayBins;
using streams::DelayCounts;
using streams::Stream;

constexpr double kUs = 1e-3;

void bins(std::string& out, const char* name, const DelayCounts& delays) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":[)", name);
  const char* comma = "";
  for (std::size_t bin = 0; bin < DelayBins::kBins; ++bin) {
    if (delays.in_bin(bin) == 0) continue;
    fmt::format_to(std::back_inserter(out), "{}[{},{}]", comma, DelayBins::upper_bound(bin),
                   delays.in_bin(bin));
    comma = ",";
  }
  out += ']';
}

std::string json_of(const Stream& stream) {
  std::string out;
  const auto to = std::back_inserter(out);
  const streams::Sequence& sequence = stream.sequence;
  out += '{';
  if (const auto layer = layer_of(stream.group)) {
    fmt::format_to(to, R"("session":{},"rank":{},)", layer->session, layer->rank);
  }
  const std::uint64_t unique = sequence.in_order() + sequence.reordered();
  fmt::format_to(to,
                 R"("group":"{}","source":"{}","received":{},"bytes":{},"in_order":{},)"
                 R"("reordered":{},"duplicates":{},"stale":{},"lost":{},"loss_ratio":{},)"
                 R"("restarts":{},"marked":{})",
                 agent::format_ipv4(stream.group), agent::format_ipv4(stream.source),
                 stream.received(), stream.bytes.get(), sequence.in_order(), sequence.reordered(),
                 sequence.duplicates(), sequence.stale(), sequence.lost(),
                 loss_ratio(sequence.lost(), unique), sequence.restarts(), stream.marked.get());
  if (stream.received() > 0) {
    fmt::format_to(to, R"(,"first_arrival_ns":{},"last_arrival_ns":{})",
                   stream.first_arrival_ns.load(), stream.last_arrival_ns.load());
  }
  if (const std::uint64_t known = stream.extents.get(); known > 0) {
    fmt::format_to(to, R"(,"extent_max":{},"extent_mean":{},"extent_unknown":{})",
                   stream.extent_max.get(),
                   static_cast<double>(stream.extent_sum.get()) / static_cast<double>(known),
                   sequence.reordered() - known);
  }
  const auto quantiles = [&](const DelayCounts& delays, std::int64_t most) {
    for (const auto& [name, share] :
         {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}}) {
      fmt::format_to(to, R"(,"{}":{})", name,
                     static_cast<double>(std::min(delays.quantile(share), most)) * kUs);
    }
  };
  if (const std::uint64_t stamped = stream.stamped.get(); stamped > 0) {
    fmt::format_to(
        to, R"(,"latency_us":{{"count":{},"min":{},"mean":{},"max":{})", stamped,
        static_cast<double>(stream.latency_min_ns.load()) * kUs,
        static_cast<double>(stream.latency_sum_ns.load()) * kUs / static_cast<double>(stamped),
        static_cast<double>(stream.latency_max_ns.load()) * kUs);
    const DelayCounts latency = stream.latency();
    quantiles(latency, stream.latency_max_ns.load());
    out += '}';
    bins(out, "latency_bins_ns", latency);
  }
  const DelayCounts gap_counts = stream.gaps();
  if (const std::uint64_t gaps = gap_counts.count(); gaps > 0) {
    const std::int64_t whole = stream.last_arrival_ns.load() - stream.first_arrival_ns.load();
    fmt::format_to(to, R"(,"gap_us":{{"count":{},"mean":{})", gaps,
                   static_cast<double>(whole) * kUs / static_cast<double>(gaps));
    quantiles(gap_counts, whole);
    out += '}';
    bins(out, "gap_bins_ns", gap_counts);
  }
  out += '}';
  return out;
}

std::string stream_rows(const streams::StreamTable& table, std::size_t most) {
  std::vector<std::uint32_t> shown;
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (table[i].received() > 0) shown.push_back(i);
  }
  const std::size_t all = shown.size();
  if (all == 0) return "";
  if (all > most) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::uint32_t a, std::uint32_t b) {
      return table[a].sequence.lost() > table[b].sequence.lost();
    });
    shown.resize(most);
  }
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "  {:>16} {:>12} {:>10} {:>8} {:>6} {:>9} {:>8} {:>9} {:>9} {:>9}\n",
                 "session/rank", "received", "lost", "loss", "dup", "reordered", "marked", "p50",
                 "p99", "max");
  for (const std::uint32_t i : shown) {
    const Stream& stream = table[i];
    const streams::Sequence& sequence = stream.sequence;
    const bool stamped = stream.stamped.get() > 0;
    const auto delay = [&](std::int64_t ns) { return stamped ? short_time(ns) : std::string("-"); };
    fmt::format_to(to, "  {:>16} {:>12} {:>10} {:>7.3f}% {:>6} {:>9} {:>8} {:>9} {:>9} {:>9}\n",
                   stream_name(stream), stream.received(), sequence.lost(),
                   100 * loss_ratio(sequence.lost(), sequence.in_order() + sequence.reordered()),
                   sequence.duplicates(), sequence.reordered(), stream.marked.get(),
                   delay(stream.latency_quantile(0.5)), delay(stream.latency_quantile(0.99)),
                   delay(stream.latency_max_ns.load()));
  }
  if (all > most) fmt::format_to(to, "  and {} more streams (--json has all)\n", all - most);
  return out;
}

}  // namespace

std::string summary(const Ports& ports, double seconds, std::size_t most) {
  std::string out;
  const auto to = std::back_inserter(out);
  for (const auto& port : ports) {
    const Totals totals = totals_of(port->streams());
    fmt::format_to(to, "{}: {} frames in {:.1f} s ({}/s)", port_name(port->port()),
                   port->received(), seconds,
                   short_number(seconds > 0 ? static_cast<double>(port->received()) / seconds : 0));
    const char* comma = ": ";
    for (std::size_t fate = 0; fate < kFates; ++fate) {
      const std::uint64_t count = port->fate(static_cast<Fate>(fate));
      if (count == 0 && fate != 0) continue;
      fmt::format_to(to, "{}{} {}", comma, count, name(static_cast<Fate>(fate)));
      comma = ", ";
    }
    fmt::format_to(to, "; {} missed by the device\n", port->port().missed());
    fmt::format_to(
        to,
        "  {} streams: {} received, {} lost ({:.4f} %), {} duplicates, {} reordered "
        "(extent at most {}), {} stale, {} marked, {} restarts; {} joined and silent\n",
        totals.streams, totals.received, totals.lost,
        100 * loss_ratio(totals.lost, totals.received - totals.duplicates - totals.stale),
        totals.duplicates, totals.reordered, totals.extent_max, totals.stale, totals.marked,
        totals.restarts, totals.silent);
    out += stream_rows(port->streams(), most);
  }
  return out;
}

void write_json(const Ports& ports, double seconds, const Capture* capture,
                dpdk::OutputFile& file) {
  file.write(
      fmt::format(R"({{"version":"{}","duration_s":{},"ports":[)", TIERCAST_VERSION, seconds));
  const char* comma = "\n";
  for (const auto& port : ports) {
    file.write(fmt::format(
        R"({}{{"device":"{}","driver":"{}","interface":"{}",)"
        R"("stamps":"{}","frames":{{"received":{},"bytes":{})",
        comma, port->port().device(), port->port().driver(), port->port().interface(),
        port->stamped_by_device() ? "device" : "software", port->received(), port->bytes()));
    for (std::size_t fate = 0; fate < kFates; ++fate) {
      file.write(fmt::format(R"(,"{}":{})", name(static_cast<Fate>(fate)),
                             port->fate(static_cast<Fate>(fate))));
    }
    file.write(fmt::format(R"(}},"missed":{},"igmp_sent":{},"streams":[)", port->port().missed(),
                           port->igmp_sent()));
    const streams::StreamTable& table = port->streams();
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      file.write((i == 0 ? "\n" : ",\n") + json_of(table[i]));
    }
    file.write("]}");
    comma = ",\n";
  }
  file.write("]");
  if (capture != nullptr) {
    file.write(fmt::format(R"(,"captured":{},"not_captured":{})", capture->written(),
                           capture->left_out()));
  }
  file.write("}\n");
}

}  // namespace tiercast::receiver
