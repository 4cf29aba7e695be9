#include "dataplane/receiver/show/prometheus.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/address.h"
#include "dataplane/dpdk/metric_family.h"
#include "dataplane/receiver/show/totals.h"

namespace tiercast::receiver {
namespace {

using dpdk::MetricFamilyBuilder;
using dpdk::MetricLabels;
using prometheus::MetricFamily;
using prometheus::MetricType;
using streams::Stream;

struct OfStream {
  const char* name;
  const char* help;
  std::uint64_t (*value)(const Stream&);
};

// Each as tiercast_receiver_NAME of a port, and as tiercast_receiver_stream_NAME of a stream.
constexpr OfStream kCounts[] = {
    {"packets_total", "Data packets that arrived.", [](const Stream& s) { return s.received(); }},
    {"bytes_total", "IP bytes of these.", [](const Stream& s) { return s.bytes.get(); }},
    {"duplicate_packets_total", "Packets whose number had arrived before.",
     [](const Stream& s) { return s.sequence.duplicates(); }},
    {"reordered_packets_total", "Type-P-reordered packets (RFC 4737).",
     [](const Stream& s) { return s.sequence.reordered(); }},
    {"stale_packets_total", "Packets too old to be told from duplicates.",
     [](const Stream& s) { return s.sequence.stale(); }},
    {"marked_packets_total", "Packets with CE.", [](const Stream& s) { return s.marked.get(); }},
};
// It falls when a packet arrives late.
constexpr OfStream kLost = {"lost_packets", "Packets that have not arrived, so far.",
                            [](const Stream& s) { return s.sequence.lost(); }};

MetricLabels labels_of(const PortAnalyser& port) { return {{"port", port.port().device()}}; }

MetricLabels labels_of(const PortAnalyser& port, const Stream& stream) {
  MetricLabels labels = labels_of(port);
  labels.push_back({"group", agent::format_ipv4(stream.group)});
  labels.push_back({"source", agent::format_ipv4(stream.source)});
  if (const auto layer = layer_of(stream.group)) {
    labels.push_back({"session", fmt::to_string(layer->session)});
    labels.push_back({"rank", fmt::to_string(layer->rank)});
  }
  return labels;
}

void add(const OfStream& count, MetricType type, const Ports& ports,
         std::vector<MetricFamily>& out) {
  MetricFamilyBuilder sums(type, fmt::format("tiercast_receiver_{}", count.name), count.help);
  MetricFamilyBuilder each(type, fmt::format("tiercast_receiver_stream_{}", count.name),
                           count.help);
  for (const auto& port : ports) {
    std::uint64_t sum = 0;
    const std::uint32_t streams = port->streams().size();
    for (std::uint32_t i = 0; i < streams; ++i) {
      const Stream& stream = port->streams()[i];
      const std::uint64_t value = count.value(stream);
      sum += value;
      if (i < kMetricStreams) each.add(labels_of(*port, stream), static_cast<double>(value));
    }
    sums.add(labels_of(*port), static_cast<double>(sum));
  }
  out.push_back(sums.take());
  out.push_back(each.take());
}

}  // namespace

std::vector<MetricFamily> metric_families(const Ports& ports) {
  std::vector<MetricFamily> families;
  MetricFamilyBuilder frames(MetricType::Counter, "tiercast_receiver_frames_total",
                             "Received frames, by their fate.");
  MetricFamilyBuilder missed(MetricType::Counter, "tiercast_receiver_missed_frames_total",
                             "Frames that the device had no room for, as far as its driver counts "
                             "them.");
  MetricFamilyBuilder streams(MetricType::Gauge, "tiercast_receiver_streams",
                              "Streams that were joined or have arrived.");
  MetricFamilyBuilder latency(MetricType::Histogram, "tiercast_receiver_latency_seconds",
                              "Arrival minus the sender's time in the packet. The sum is up to "
                              "3.2 % high.");
  for (const auto& port : ports) {
    for (std::size_t fate = 0; fate < kFates; ++fate) {
      MetricLabels labels = labels_of(*port);
      labels.push_back({"fate", name(static_cast<Fate>(fate))});
      frames.add(labels, static_cast<double>(port->fate(static_cast<Fate>(fate))));
    }
    missed.add(labels_of(*port), static_cast<double>(port->port().missed()));
    streams.add(labels_of(*port), port->streams().size());
    latency.add(labels_of(*port), port->latency());
  }
  for (MetricFamilyBuilder* const one : {&frames, &missed, &streams, &latency}) {
    families.push_back(one->take());
  }
  for (const OfStream& count : kCounts) add(count, MetricType::Counter, ports, families);
  add(kLost, MetricType::Gauge, ports, families);
  return families;
}

}  // namespace tiercast::receiver
