#include "dataplane/sender/metrics/statistics.h"

namespace tiercast::sender {

FeedbackStatistics Statistics::feedback() const {
  FeedbackStatistics sum;
  for (const PortStatistics& port : ports) {
    sum.received += port.feedback.received;
    sum.handed_on += port.feedback.handed_on;
    sum.malformed += port.feedback.malformed;
    sum.foreign += port.feedback.foreign;
    sum.answered += port.feedback.answered;
    sum.learned += port.feedback.learned;
    sum.queries += port.feedback.queries;
    sum.ring_full += port.feedback.ring_full;
    sum.missed += port.feedback.missed;
  }
  return sum;
}

agent::SealRefusals Statistics::seals() const {
  agent::SealRefusals sum;
  for (const WorkerStatistics& worker : workers) {
    sum.forged += worker.seal_refusals.forged;
    sum.replayed += worker.seal_refusals.replayed;
  }
  return sum;
}

FeedbackRefusals Statistics::refusals() const {
  FeedbackRefusals sum;
  for (const WorkerStatistics& worker : workers) {
    sum.non_member += worker.feedback_refusals.non_member;
    sum.impersonated += worker.feedback_refusals.impersonated;
    sum.implausible += worker.feedback_refusals.implausible;
  }
  return sum;
}

}  // namespace tiercast::sender
