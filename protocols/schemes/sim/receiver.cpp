#include "protocols/schemes/sim/receiver.h"

#include <algorithm>
#include <cmath>

#include "protocols/wire/quantities.h"

namespace tiercast::sim {
namespace {

// A request number further behind than this comes from a restarted sender.
constexpr std::int32_t kMaxRequestsBehind = 1 << 10;
// With an add_backoff of 2, add_after grows by a factor of 64 at most.
constexpr unsigned kMaxAddedInVain = 6;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), rate_(settings_.rate_weight) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  rate_since_ = now;
  // SIM 3.2: initially each receiver subscribes only to the bottom group.
  reception_.subscribe(0, sink);
}

void Receiver::stop(Time, Sink& sink) {
  if (!reception_.joined()) return;
  wire::SimFeedback bye;
  bye.session = config_.session;
  bye.source = config_.self_id;
  bye.fb_req = fb_req_;
  bye.record_count = 1;
  bye.records[0].rank = static_cast<std::uint8_t>(reception_.top());
  std::array<std::byte, wire::SimFeedback::kMaxBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(bye, message)});
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = Rate::bytes_per_second(rate_.value());
  return counters;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::SimData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session ||
      data.rank >= config_.layers) {
    reception_.refuse();
    return;
  }
  if (data.rank > reception_.top()) return;  // it may still arrive after a leave

  const GapDetector::Packet packet = gaps_[data.rank].receive(data.seq);
  if (packet.order == GapDetector::Order::kStray) {
    reception_.refuse();
    return;
  }
  reception_.count(arrival);
  reception_.lose(packet.lost);
  ++rate_packets_;
  rate_bytes_ += arrival.ip_length;

  if (data.rank == reception_.top()) {
    note_epoch(data, sink);
    if (data.rank != reception_.top()) return;  // the call changed the subscription
    ++epoch_packets_;
    epoch_marked_ += arrival.ce ? 1 : 0;
    epoch_lost_ += packet.lost;
  }
  note_request(now, data.fb_req);
  // A newcomer waits for its second packet. Before that it has no rate to report.
  if (!answered_ && (rate_.valid() || rate_packets_ >= 2)) answer_request(now, sink);
}

void Receiver::note_request(Time now, std::uint32_t fb_req) {
  const std::int32_t ahead = serial_difference(fb_req, fb_req_);
  if (request_seen_ && ahead <= 0 && ahead >= -kMaxRequestsBehind) return;
  request_seen_ = true;
  answered_ = false;
  fb_req_ = fb_req;
  request_at_ = now;
}

void Receiver::answer_request(Time now, Sink& sink) {
  // SIM 3.4: at every notification, if at least two packets have arrived since the last update.
  const Duration elapsed = now - rate_since_;
  if (rate_packets_ >= 2 && elapsed > Duration::zero()) {
    rate_.update(static_cast<double>(rate_bytes_) / elapsed.seconds());
    rate_since_ = now;
    rate_bytes_ = 0;
    rate_packets_ = 0;
  }
  if (epoch_packets_ > 0) {
    const auto share_of = [](std::uint64_t part, std::uint64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    const bool marked = share_of(epoch_marked_, epoch_packets_) >= settings_.mark_fraction;
    const double lost = share_of(epoch_lost_, epoch_packets_ + epoch_lost_);
    congested_ = marked || epoch_lost_ > 0;
    overflows_ = lost >= settings_.drop_loss;
  }
  const std::uint32_t rate = wire::to_u32(rate_.value());
  wire::SimFeedback feedback;
  feedback.session = config_.session;
  feedback.source = config_.self_id;
  feedback.fb_req = fb_req_;
  feedback.hold_us =
      static_cast<std::uint32_t>(std::min<std::int64_t>((now - request_at_).us(), 0xffffffff));
  feedback.record_count = 1;
  feedback.records[0] = {
      static_cast<std::uint8_t>(reception_.top()), 1, congested_ ? 1u : 0u, rate, rate, 1};
  std::array<std::byte, wire::SimFeedback::kMaxBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(feedback, message)});
  answered_ = true;
  notified_ = true;
  const TraceField fields[] = {{"fb_req", static_cast<double>(fb_req_)},
                               {"top", static_cast<double>(reception_.top())},
                               {"congested", congested_ ? 1.0 : 0.0},
                               {"packets", static_cast<double>(epoch_packets_)},
                               {"marked", static_cast<double>(epoch_marked_)},
                               {"lost", static_cast<double>(epoch_lost_)},
                               {"rate_Bps", rate_.value()}};
  sink.trace("sim.notification", fields);
}

void Receiver::note_epoch(const wire::SimData& data, Sink& sink) {
  if (top_seen_ && data.rate_epoch == epoch_) return;
  const bool known = top_seen_;
  const bool reduced = known && data.group_rate < top_rate_;
  top_seen_ = true;
  epoch_ = data.rate_epoch;
  top_rate_ = data.group_rate;
  epoch_packets_ = 0;
  epoch_marked_ = 0;
  epoch_lost_ = 0;
  if (known) participate(reduced, sink);
}

// SIM 3.2: "if its feedback consistently fails to affect the transmitted rate in a desired
// fashion". Evaluated once per notification, when the rate that answers it is seen. A receiver
// counts the cuts that it did not ask for, in a row, until it is congested itself. A congested
// receiver also leaves if the rate stays, as it does at its floor. It leaves an added layer that
// fills the queue at once, because until then everybody behind that link loses packets.
void Receiver::participate(bool reduced, Sink& sink) {
  if (!notified_) return;
  notified_ = false;
  if (settling_ > 0) {
    --settling_;
    return;
  }
  if (congested_) {
    needless_cuts_ = 0;
  } else if (reduced) {
    ++needless_cuts_;
  }
  congested_in_a_row_ = congested_ ? congested_in_a_row_ + 1 : 0;
  overflows_in_a_row_ = overflows_ ? overflows_in_a_row_ + 1 : 0;
  ++notifications_at_top_;
  const int top = reception_.top();
  if (top + 1 < static_cast<int>(config_.layers) && needless_cuts_ >= cuts_before(top + 1)) {
    change_top(top + 1, sink);
    return;
  }
  if (top < 1) return;
  const bool newly_added = notifications_at_top_ < 2 * settings_.drop_after;
  const unsigned drop_after_loss = newly_added ? 1 : settings_.drop_after_loss;
  if (overflows_in_a_row_ >= drop_after_loss ||
      (congested_in_a_row_ >= settings_.drop_after && !reduced)) {
    unsigned& in_vain = added_in_vain_[static_cast<std::size_t>(top)];
    in_vain = newly_added ? std::min(in_vain + 1, kMaxAddedInVain) : 0;
    change_top(top - 1, sink);
  }
}

double Receiver::cuts_before(int layer) const {
  const unsigned in_vain = added_in_vain_[static_cast<std::size_t>(layer)];
  return settings_.add_after * std::pow(settings_.add_backoff, in_vain);
}

void Receiver::change_top(int top, Sink& sink) {
  if (top > reception_.top()) gaps_[static_cast<std::size_t>(top)].reset();
  reception_.subscribe(top, sink);
  top_seen_ = false;
  epoch_packets_ = 0;
  epoch_marked_ = 0;
  epoch_lost_ = 0;
  congested_ = false;
  overflows_ = false;
  notified_ = false;
  needless_cuts_ = 0;
  congested_in_a_row_ = 0;
  overflows_in_a_row_ = 0;
  notifications_at_top_ = 0;
  settling_ = settings_.settle_epochs;
}

}  // namespace tiercast::sim
