#include "dataplane/sender/metrics/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dataplane/dpdk/short_text.h"

namespace tiercast::sender {
namespace {

using dpdk::short_number;
using dpdk::short_time;

constexpr double kNsPerSecond = 1e9;

double wanted_packets_per_second(const Statistics& statistics) {
  double wanted = 0;
  for (const LayerStatistics& layer : statistics.layers) {
    if (layer.packet_size > 0) wanted += layer.rate.bytes_per_second() / layer.packet_size;
  }
  return wanted;
}

}  // namespace

std::string LiveView::draw(const Statistics& now) {
  if (!last_) first_ = now.taken;
  const Statistics none;
  const Statistics& before = last_ ? *last_ : none;
  const double seconds =
      last_ ? std::max(static_cast<double>((now.taken - before.taken).ns()) / kNsPerSecond, 1e-9)
            : 0;
  // Per second since the last call; empty at the first call.
  const auto rate = [seconds](std::uint64_t count, std::uint64_t earlier) {
    return short_number(seconds > 0 ? static_cast<double>(count - earlier) / seconds : 0);
  };
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "tiercast-send on");
  const char* separator = " ";
  for (const PortStatistics& port : now.ports) {
    fmt::format_to(out, "{}{} (link {})", separator, port.device, port.link_up ? "up" : "DOWN");
    separator = ", ";
  }
  fmt::format_to(out, ", {:.0f} s, wanted {} packets/s\n",
                 static_cast<double>((now.taken - first_).ns()) / kNsPerSecond,
                 short_number(wanted_packets_per_second(now)));
  fmt::format_to(out, "{:>5} {:>9} {:>8} {:>10} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}\n", "lcore",
                 "sessions", "layers", "sent/s", "bit/s", "late p50", "late p99", "dropped",
                 "skipped", "behind");
  const WorkerStatistics fresh;
  std::uint64_t delivered = 0, refused = 0;
  for (std::size_t i = 0; i < now.workers.size(); ++i) {
    const WorkerStatistics& worker = now.workers[i];
    const WorkerStatistics& earlier = i < before.workers.size() ? before.workers[i] : fresh;
    const Histogram late = worker.late.since(earlier.late);
    fmt::format_to(out, "{:>5} {:>9} {:>8} {:>10} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}\n",
                   worker.lcore, worker.sessions, worker.layers, rate(worker.sent, earlier.sent),
                   rate(worker.sent_bytes * 8, earlier.sent_bytes * 8),
                   short_time(late.quantile(0.5)), short_time(late.quantile(0.99)), worker.dropped,
                   worker.given_up, worker.behind);
    delivered += worker.feedback_delivered;
    refused += worker.feedback_refused;
  }
  const FeedbackStatistics feedback = now.feedback();
  const FeedbackStatistics earlier_feedback = before.feedback();
  fmt::format_to(
      out,
      "feedback {}/s received; in all {} delivered, {} refused, {} malformed, {} foreign, "
      "{} lost\n",
      rate(feedback.received, earlier_feedback.received), delivered, refused, feedback.malformed,
      feedback.foreign, feedback.ring_full);
  last_ = now;
  last_->layers.clear();
  return text;
}

void LiveView::show(const Statistics& now, std::FILE* terminal) {
  redrawn_.show(draw(now), terminal);
}

}  // namespace tiercast::sender
