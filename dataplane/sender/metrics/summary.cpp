#include "dataplane/sender/metrics/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dataplane/dpdk/short_text.h"

namespace tiercast::sender {

std::string summary(const Statistics& final, Duration took) {
  std::uint64_t generated = 0, sent = 0, bytes = 0, dropped = 0, skipped = 0, behind = 0;
  std::uint64_t delivered = 0, refused = 0;
  Histogram late;
  for (const WorkerStatistics& worker : final.workers) {
    generated += worker.generated;
    sent += worker.sent;
    bytes += worker.sent_bytes;
    dropped += worker.dropped;
    skipped += worker.given_up;
    behind += worker.behind;
    delivered += worker.feedback_delivered;
    refused += worker.feedback_refused;
    late.add(worker.late);
  }
  const std::uint64_t wanted = generated + skipped;
  const double seconds = std::max(took.seconds(), 1e-9);
  const auto share = [wanted](std::uint64_t count) {
    return wanted == 0 ? 0 : 100 * static_cast<double>(count) / static_cast<double>(wanted);
  };
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "sent {} of {} wanted packets in {:.1f} s ({} packets/s, {}bit/s of IP)\n",
                 sent, wanted, took.seconds(),
                 dpdk::short_number(static_cast<double>(sent) / seconds),
                 dpdk::short_number(8 * static_cast<double>(bytes) / seconds));
  fmt::format_to(out,
                 "lost {} ({:.4f} %): {} dropped, {} skipped after stalls\n"
                 "late p50 {}, p99 {}, max {}; {} by more than 100 us\n",
                 dropped + skipped, share(dropped + skipped), dropped, skipped,
                 dpdk::short_time(late.quantile(0.5)), dpdk::short_time(late.quantile(0.99)),
                 dpdk::short_time(late.max()), behind);
  const FeedbackStatistics feedback = final.feedback();
  const FeedbackRefusals refusals = final.refusals();
  if (feedback.received > 0 || feedback.missed > 0) {
    fmt::format_to(out,
                   "feedback: {} frames: {} delivered, {} refused, {} malformed, {} foreign, {} "
                   "lost, {} missed by the device\n",
                   feedback.received, delivered, refused, feedback.malformed, feedback.foreign,
                   feedback.ring_full, feedback.missed);
  }
  if (refusals.total() > 0) {
    fmt::format_to(out,
                   "refused feedback: {} of no member, {} in another member's name (--member), {} "
                   "that cannot be true\n",
                   refusals.non_member, refusals.impersonated, refusals.implausible);
  }
  return text;
}

}  // namespace tiercast::sender
