#include "dataplane/sender/metrics/records.h"

#include <fmt/format.h>

#include <cstdio>

#include "protocols/core/rows.h"

namespace tiercast::sender {
namespace {

double us(std::int64_t ns) { return static_cast<double>(ns) / 1000; }
double real(std::uint64_t count) { return static_cast<double>(count); }

std::uint64_t sum(const Statistics& statistics, std::uint64_t WorkerStatistics::* member) {
  std::uint64_t total = 0;
  for (const WorkerStatistics& worker : statistics.workers) total += worker.*member;
  return total;
}

Histogram lateness(const Statistics& statistics) {
  Histogram late;
  for (const WorkerStatistics& worker : statistics.workers) late.add(worker.late);
  return late;
}

void record_lateness(agent::Telemetry& telemetry, Time now, const char* kind, const Histogram& late,
                     std::uint64_t dropped) {
  telemetry.record(now, kind,
                   {{"late_p50_us", us(late.quantile(0.5))},
                    {"late_p99_us", us(late.quantile(0.99))},
                    {"late_p999_us", us(late.quantile(0.999))},
                    {"late_max_us", us(late.max())},
                    {"count", real(late.count())},
                    {"dropped", real(dropped)}});
}

}  // namespace

void SessionRecords::write(const Statistics& statistics, bool second) {
  const Time now = statistics.taken;
  for (const LayerStatistics& layer : statistics.layers) {
    telemetry_.record(now, "layer",
                      layer_row(layer.rank, layer.rate, layer.packet_size,
                                {layer.generated, layer.sent, layer.dropped}));
  }
  if (!second) return;
  const FeedbackStatistics seen = statistics.feedback();
  const FeedbackCounters feedback{
      .delivered = sum(statistics, &WorkerStatistics::feedback_delivered),
      .malformed = seen.malformed,
      .foreign = seen.foreign + seen.learned + seen.queries};
  const FeedbackRefusals refusals = statistics.refusals();
  telemetry_.record(
      now, "feedback",
      feedback_row(feedback, sum(statistics, &WorkerStatistics::feedback_refused),
                   refusals.implausible, sum(statistics, &WorkerStatistics::control_dropped)));
  if (refusals.total() > 0) {
    telemetry_.record(now, "feedback.refused", feedback_refused_row(refusals));
  }
  if (const agent::SealRefusals seals = statistics.seals(); seals.total() > 0) {
    telemetry_.record(now, "seal.refused", agent::seal_refused_row(seals));
  }
  const Histogram late = lateness(statistics);
  const std::uint64_t dropped = sum(statistics, &WorkerStatistics::dropped);
  record_lateness(telemetry_, now, "pacer", late.since(late_), dropped - dropped_);
  late_ = late;
  dropped_ = dropped;
}

void SessionRecords::write_totals(const Statistics& statistics) {
  record_lateness(telemetry_, statistics.taken, "pacer.final", lateness(statistics),
                  sum(statistics, &WorkerStatistics::dropped));
}

void WorkerRecords::write(const Statistics& statistics, const char* pacer_kind) {
  const Time now = statistics.taken;
  for (const WorkerStatistics& worker : statistics.workers) {
    const double lcore = worker.lcore;
    telemetry_.record(now, "worker",
                      {{"lcore", lcore},
                       {"port", real(worker.port)},
                       {"sessions", real(worker.sessions)},
                       {"layers", real(worker.layers)},
                       {"generated_packets", real(worker.generated)},
                       {"sent_packets", real(worker.sent)},
                       {"sent_bytes", real(worker.sent_bytes)},
                       {"dropped_packets", real(worker.dropped)},
                       {"given_up_packets", real(worker.given_up)},
                       {"behind", real(worker.behind)},
                       {"control_sent", real(worker.control_sent)},
                       {"control_dropped", real(worker.control_dropped)},
                       {"payload_underruns", real(worker.payload_underruns)},
                       {"trace_lost", real(worker.trace_lost)}});
    telemetry_.record(now, pacer_kind,
                      {{"lcore", lcore},
                       {"late_p50_us", us(worker.late.quantile(0.5))},
                       {"late_p99_us", us(worker.late.quantile(0.99))},
                       {"late_p999_us", us(worker.late.quantile(0.999))},
                       {"late_max_us", us(worker.late.max())},
                       {"gap_error_p50_us", us(worker.gap_error.quantile(0.5))},
                       {"gap_error_p99_us", us(worker.gap_error.quantile(0.99))},
                       {"gap_error_p999_us", us(worker.gap_error.quantile(0.999))},
                       {"gap_error_max_us", us(worker.gap_error.max())},
                       {"count", real(worker.late.count())},
                       {"dropped", real(worker.dropped)}});
  }
  const std::uint64_t delivered = sum(statistics, &WorkerStatistics::feedback_delivered);
  const std::uint64_t refused = sum(statistics, &WorkerStatistics::feedback_refused);
  const FeedbackStatistics feedback = statistics.feedback();
  const FeedbackRefusals refusals = statistics.refusals();
  telemetry_.record(now, "feedback",
                    {{"accepted", real(delivered - refused - refusals.implausible)},
                     {"refused", real(refused)},
                     {"malformed", real(feedback.malformed)},
                     {"foreign", real(feedback.foreign)},
                     {"non_member", real(refusals.non_member)},
                     {"impersonated", real(refusals.impersonated)},
                     {"implausible", real(refusals.implausible)},
                     {"late", real(sum(statistics, &WorkerStatistics::feedback_late))},
                     {"received", real(feedback.received)},
                     {"answered", real(feedback.answered)},
                     {"learned", real(feedback.learned)},
                     {"igmp_query", real(feedback.queries)},
                     {"ring_full", real(feedback.ring_full)},
                     {"missed", real(feedback.missed)}});
  warn(statistics);
}

void WorkerRecords::write_ended(Time now, const std::vector<LayerStatistics>& ended) {
  for (const LayerStatistics& layer : ended) {
    telemetry_.record(now, "layer",
                      {{"session", real(layer.session)},
                       {"rank", real(layer.rank)},
                       {"rate_Bps", layer.rate.bytes_per_second()},
                       {"sent_packets", real(layer.sent)},
                       {"sent_bytes", real(layer.sent) * layer.packet_size},
                       {"generated_packets", real(layer.generated)},
                       {"dropped_packets", real(layer.dropped)}});
  }
}

// Warns once a second of workers that fall behind, and of links that change.
void WorkerRecords::warn(const Statistics& statistics) {
  given_up_.resize(statistics.workers.size(), 0);
  for (std::size_t i = 0; i < statistics.workers.size(); ++i) {
    const WorkerStatistics& worker = statistics.workers[i];
    if (worker.given_up > given_up_[i]) {
      fmt::print(stderr, "{}: core {} is behind: it skipped {} packets in this second\n", name_,
                 worker.lcore, worker.given_up - given_up_[i]);
    }
    given_up_[i] = worker.given_up;
  }
  link_up_.resize(statistics.ports.size(), true);
  for (std::size_t i = 0; i < statistics.ports.size(); ++i) {
    const PortStatistics& port = statistics.ports[i];
    if (port.link_up != link_up_[i]) {
      fmt::print(stderr, "{}: the link of {} is {}\n", name_, port.device,
                 port.link_up ? "up" : "down: packets are dropped");
    }
    link_up_[i] = port.link_up;
  }
}

}  // namespace tiercast::sender
