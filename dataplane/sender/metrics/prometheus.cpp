#include "dataplane/sender/metrics/prometheus.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "dataplane/dpdk/metric_family.h"

namespace tiercast::sender {
namespace {

using dpdk::MetricLabels;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Family : public dpdk::MetricFamilyBuilder {
 public:
  Family(MetricType type, const char* name, const char* help)
      : MetricFamilyBuilder(type, fmt::format("tiercast_sender_{}", name), help) {}
};

template <typename Value>
struct OfWorker {
  MetricType type;
  const char* name;
  const char* help;
  Value WorkerStatistics::* value;
};

constexpr MetricType kGauge = MetricType::Gauge, kCounter = MetricType::Counter;

constexpr OfWorker<std::uint32_t> kSizes[] = {
    {kGauge, "sessions", "Sessions that run.", &WorkerStatistics::sessions},
    {kGauge, "layers", "Layers with a rate above 0.", &WorkerStatistics::layers},
};

constexpr OfWorker<std::uint64_t> kCounts[] = {
    {kCounter, "generated_packets_total", "Data packets that were due: sent and dropped.",
     &WorkerStatistics::generated},
    {kCounter, "sent_packets_total", "Data packets that the device took.", &WorkerStatistics::sent},
    {kCounter, "sent_bytes_total", "IP bytes of data packets that the device took.",
     &WorkerStatistics::sent_bytes},
    {kCounter, "dropped_packets_total",
     "Data packets without a buffer, on a link that was down, or refused by the device.",
     &WorkerStatistics::dropped},
    {kCounter, "skipped_packets_total",
     "Packets that layers' schedules skipped after stalls; never generated.",
     &WorkerStatistics::given_up},
    {kCounter, "behind_total", "Departures that were more than 100 us late.",
     &WorkerStatistics::behind},
    {kCounter, "control_sent_packets_total", "Messages of congestion control beside the data.",
     &WorkerStatistics::control_sent},
    {kCounter, "control_dropped_packets_total", "The same, dropped.",
     &WorkerStatistics::control_dropped},
    {kCounter, "payload_underruns_total", "Packets that the input had no bytes for.",
     &WorkerStatistics::payload_underruns},
    {kCounter, "lost_records_total", "Trace records dropped for lack of room.",
     &WorkerStatistics::trace_lost},
};

constexpr OfWorker<Histogram> kHistograms[] = {
    {MetricType::Histogram, "lateness_seconds",
     "Time from when a data packet is due to its hand-over. The sum is up to 3.2 % high.",
     &WorkerStatistics::late},
    {MetricType::Histogram, "gap_error_seconds",
     "Difference between the gap of a layer's successive data packets and the interval of its "
     "rate. "
     "The sum is up to 3.2 % high.",
     &WorkerStatistics::gap_error},
};

template <typename Value, std::size_t count>
void add_workers(const OfWorker<Value> (&of_worker)[count], const Statistics& statistics,
                 std::vector<MetricFamily>& out) {
  for (const auto& [type, name, help, value] : of_worker) {
    Family family(type, name, help);
    for (const WorkerStatistics& worker : statistics.workers) {
      const MetricLabels labels = {{"lcore", fmt::to_string(worker.lcore)},
                                   {"port", statistics.ports.at(worker.port).device}};
      if constexpr (std::is_same_v<Value, Histogram>) {
        family.add(labels, worker.*value);
      } else {
        family.add(labels, static_cast<double>(worker.*value));
      }
    }
    out.push_back(family.take());
  }
}

MetricFamily feedback_family(const Statistics& statistics) {
  Family family(MetricType::Counter, "feedback_frames_total", "Received frames, by their fate.");
  std::uint64_t delivered = 0, refused = 0, late = 0;
  for (const WorkerStatistics& worker : statistics.workers) {
    delivered += worker.feedback_delivered;
    refused += worker.feedback_refused;
    late += worker.feedback_late;
  }
  const FeedbackStatistics feedback = statistics.feedback();
  const FeedbackRefusals refusals = statistics.refusals();
  const agent::SealRefusals seals = statistics.seals();
  const std::pair<const char*, std::uint64_t> fates[] = {
      {"accepted", delivered - std::min(refused + refusals.implausible, delivered)},
      {"refused", refused},
      {"session_ended", late},
      {"non_member", refusals.non_member},
      {"impersonated", refusals.impersonated},
      {"implausible", refusals.implausible},
      {"forged", seals.forged},
      {"replayed", seals.replayed},
      {"malformed", feedback.malformed},
      {"foreign", feedback.foreign},
      {"answered", feedback.answered},
      {"learned", feedback.learned},
      {"igmp_query", feedback.queries},
      {"ring_full", feedback.ring_full},
  };
  for (const auto& [fate, count] : fates) {
    family.add({{"fate", fate}}, static_cast<double>(count));
  }
  return family.take();
}

}  // namespace

std::vector<MetricFamily> metric_families(const Statistics& statistics) {
  std::vector<MetricFamily> families;
  add_workers(kSizes, statistics, families);
  add_workers(kCounts, statistics, families);
  add_workers(kHistograms, statistics, families);
  families.push_back(feedback_family(statistics));
  Family missed(MetricType::Counter, "feedback_missed_total",
                "Frames that the device had no room for, as far as its driver counts them.");
  for (const PortStatistics& port : statistics.ports) {
    missed.add({{"port", port.device}}, static_cast<double>(port.feedback.missed));
  }
  families.push_back(missed.take());
  Family link(MetricType::Gauge, "link_up", "1: the device's link is up.");
  for (const PortStatistics& port : statistics.ports) {
    link.add({{"port", port.device}}, port.link_up ? 1.0 : 0.0);
  }
  families.push_back(link.take());
  return families;
}

}  // namespace tiercast::sender
