#include "protocols/schemes/rla/sender.h"

#include <algorithm>
#include <bit>

#include "protocols/wire/quantities.h"

namespace tiercast::rla {
namespace {

// Acknowledgements of packets that are further from the window are for another sender. No window is
// larger.
constexpr std::int32_t kMaxDistance = 1 << 16;
constexpr double kMaxBackoff = 64;
// Receivers that still follow an earlier sender say no hello. After so many of their intervals data
// flows without one.
constexpr double kHelloIntervals = 4;
// An older echo belongs to no packet of this session.
constexpr Duration kMaxEcho = Duration::milliseconds(60'000);

}  // namespace

Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed),
      listening_(settings_, rng_.next()),
      members_(settings_),
      board_(std::bit_ceil(std::max(64u, settings_.max_window)), settings_.max_receivers),
      repairs_(board_),
      departures_(4 * std::size_t{std::max(64u, settings_.max_window)}),
      message_(config.packet_size - kIpUdpHeaderBytes),
      first_(static_cast<std::uint32_t>(rng_.next())),
      payload_(config.packet_size - kIpUdpHeaderBytes -
               static_cast<std::uint32_t>(wire::RlaData::kBytes)),
      packets_(static_cast<std::uint32_t>((config.object.size() + payload_ - 1) / payload_)),
      max_reach_all_(first_ - 1) {
  board_.restart(first_);
}

void Sender::start(Time now, Sink&) { now_ = refresh_at_ = now; }

Time Sender::next_timer() const { return std::min({start_at_, departure_, overdue_at_, expires_}); }

std::uint64_t Sender::signals(std::uint32_t receiver) const {
  const Member* const member = members_.find(receiver);
  return member == nullptr ? 0 : member->listener.signals;
}

// --- Members -------------------------------------------------------------------------------------

void Sender::membership(Time now, int top_rank, Sink& sink) {
  advance(now);
  subscribed_ = top_rank >= 0;
  if (!subscribed_) {
    remove_all(sink);
    start_at_ = departure_ = Time::never();
  } else if (!started_ && start_at_.is_never()) {
    start_at_ = now_ + settings_.start_delay + settings_.hello_interval * kHelloIntervals;
  }
  arm();
}

void Sender::stop(Time now, Sink& sink) { membership(now, -1, sink); }

Member* Sender::add(std::uint32_t source, std::uint32_t address, std::uint32_t cum_ack,
                    Sink& sink) {
  Member* const member = members_.add(now_, source, address, counts_.packets);
  if (member == nullptr) {
    unknown_receiver_at_ = now_;
    return nullptr;
  }
  member->judged = cum_ack;
  board_.join(member->slot, cum_ack);
  for (std::uint32_t seq = board_.base(); seq != cum_ack; ++seq) evaluate(seq);
  probe_ = false;
  if (overdue_at_.is_never()) overdue_at_ = now_ + repair_after();
  const TraceField fields[] = {{"receiver", static_cast<double>(source)},
                               {"change", static_cast<double>(Change::kJoined)},
                               {"receivers", static_cast<double>(board_.members())}};
  sink.trace("rla.member", fields);
  return member;
}

void Sender::remove(Member& member, Change why, Sink& sink) {
  if (member.active) {
    member.active = false;
    board_.leave(member.slot);
    listening_.forget(member.listener);
    // A packet that only this member lacked is now acknowledged by all, or lost by the rest.
    for (std::uint32_t seq = board_.base(); seq != board_.next(); ++seq) evaluate(seq);
    slide();
    if (board_.members() == 0) repairs_.forget();
    counts_.dropped += why == Change::kLeft ? 0 : 1;
    const TraceField fields[] = {{"receiver", static_cast<double>(member.source)},
                                 {"change", static_cast<double>(why)},
                                 {"receivers", static_cast<double>(board_.members())}};
    sink.trace("rla.member", fields);
  }
  member.dropped = why == Change::kSlow;
  if (!member.dropped) members_.erase(member);
}

void Sender::remove_all(Sink& sink) {
  members_.for_each_known([&](Member& member) { remove(member, Change::kLeft, sink); });
  credits_ = 0;
  backoff_ = 1;
  listening_.restart();
}

void Sender::hello(const wire::RlaAck& ack, std::uint32_t address, Sink& sink) {
  // While data flows, its first packet will make the newcomer report. Until then, the newcomer
  // would hold up the window.
  if (started_ && board_.members() > 0) {
    unknown_receiver_at_ = now_;
    return;
  }
  Member* member = members_.find(ack.source);
  if (member == nullptr && add(ack.source, address, board_.base(), sink) == nullptr) {
    ++invalid_;
    return;
  }
  if (!started_) start_at_ = std::min(start_at_, now_ + settings_.start_delay);
  arm();
  pump(sink);
}

// --- Acknowledgements ----------------------------------------------------------------------------

bool Sender::is_far_off(const wire::RlaAck& ack) const {
  const std::int32_t ahead = serial_difference(ack.cum_ack, board_.base());
  return ahead < -kMaxDistance || ahead > kMaxDistance ||
         ack.end() - ack.cum_ack > static_cast<std::uint32_t>(kMaxDistance);
}

bool Sender::keep_to_proof(wire::RlaAck& ack, Proof& proof) {
  const std::uint32_t end = ack.end();
  const auto beyond = proof.beyond(departures_, ack.echo_time_us, end - 1);
  if (beyond == 0u) return true;
  implausible_ += Proof::is_lie(beyond) ? 1 : 0;
  if (!beyond) return false;
  const std::uint32_t limit = end - *beyond;
  if (serial_newer(ack.cum_ack, limit)) ack.cum_ack = limit;
  std::uint8_t kept = 0;
  for (std::size_t i = 0; i < ack.record_count; ++i) {
    wire::RlaSack run = ack.sacks[i];
    if (serial_newer(run.end, limit)) run.end = limit;
    if (serial_newer(run.end, run.start)) ack.sacks[kept++] = run;
  }
  ack.record_count = kept;
  return true;
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  advance(now);
  wire::RlaAck ack;
  if (wire::parse(arrival.message, ack) != wire::Error::kOk || ack.session != config_.session) {
    ++invalid_;
    return;
  }
  if (!subscribed_) return;  // its join has not reached the root yet, or its leave already has
  Member* member = members_.find(ack.source);
  if ((ack.flags & wire::RlaAck::kBye) != 0) {
    if (member != nullptr) remove(*member, Change::kLeft, sink);
    pump(sink);
    return;
  }
  if ((ack.flags & wire::RlaAck::kHello) != 0) return hello(ack, arrival.from, sink);
  if (!started_ || is_far_off(ack)) {
    ++invalid_;
    return;
  }
  Proof of_newcomer;
  if (!keep_to_proof(ack, member == nullptr ? of_newcomer : member->proof)) return;
  if (member == nullptr) {
    // The first acknowledgement registers the receiver. It must do without packets that are no
    // longer repeated.
    const bool behind = serial_newer(board_.base(), ack.cum_ack);
    member = add(ack.source, arrival.from, behind ? board_.base() : ack.cum_ack, sink);
    if (member == nullptr) {
      ++invalid_;
      return;
    }
    member->proof = of_newcomer;
  }
  if (member->dropped) return;
  member->address = arrival.from;
  acknowledged(*member, ack, sink);
  if (now_ >= refresh_at_) refresh(sink);
  pump(sink);
}

void Sender::acknowledged(Member& member, const wire::RlaAck& ack, Sink& sink) {
  const Duration sample = Duration::microseconds(wire::clock_us(now_) - ack.echo_time_us);
  const bool sound = sample <= kMaxEcho;
  members_.heard(member, now_, sound ? std::min(sample, kMaxRtt) : Duration::microseconds(-1),
                 ack.rwnd);

  const std::uint32_t at = member.slot;
  const auto newly = [this](std::uint32_t seq) { evaluate(seq); };
  const std::uint32_t cum_before = board_.cum_ack(at);
  board_.acknowledge_before(at, ack.cum_ack, newly);
  if (board_.cum_ack(at) != cum_before) member.timeouts = 0;
  for (std::size_t i = 0; i < ack.record_count; ++i) {
    board_.acknowledge(at, ack.sacks[i].start, ack.sacks[i].end, newly);
  }
  if (detect_losses(member)) congested(member, sink);

  if ((ack.flags & wire::RlaAck::kRexmitNow) != 0 && board_.contains(board_.cum_ack(at)) &&
      (member.rexmit_now_at.is_never() || now_ - member.rexmit_now_at > member.rtt.srtt())) {
    member.rexmit_now_at = now_;
    unicast(board_.cum_ack(at), member, sink);
  }
  slide();
}

// Rule 1: a packet is lost if three packets that left after it have arrived. Each transmission of a
// packet counts separately.
bool Sender::detect_losses(Member& member) {
  const std::uint32_t at = member.slot;
  const std::uint32_t cum_ack = board_.cum_ack(at);
  if (serial_newer(cum_ack, member.judged)) member.judged = cum_ack;
  const std::uint32_t reach = board_.reach(at);
  const std::uint32_t limit = reach - 3;  // packets before this one have three after them
  bool lost = false;
  bool holes = false;
  std::uint32_t next_check = board_.next() + 3;  // for packets that are repeated now
  const auto judge = [&](std::uint32_t seq) {
    holes = true;
    if (board_.is_lost(at, seq)) return;
    const std::uint32_t enough = board_.packet(seq).mark + 3;
    if (serial_newer(enough, reach)) {
      if (serial_newer(next_check, enough)) next_check = enough;
      return;
    }
    board_.lose(at, seq);
    lost = true;
    evaluate(seq);
  };
  if (member.recheck && !serial_newer(member.recheck_at, reach)) {
    member.recheck = false;
    board_.missing(at, cum_ack, member.judged, judge);
  }
  if (serial_newer(limit, member.judged)) {
    const std::uint32_t from = member.judged;
    member.judged = limit;
    board_.missing(at, from, limit, judge);
  }
  if (holes) {
    if (!member.recheck || serial_newer(member.recheck_at, next_check)) {
      member.recheck_at = next_check;
    }
    member.recheck = true;
  }
  return lost;
}

void Sender::congested(Member& member, Sink& sink) {
  using Reaction = RandomListening::Reaction;
  const Duration srtt = member.rtt.valid() ? member.rtt.srtt() : settings_.initial_timeout;
  const Reaction reaction =
      listening_.loss(now_, member.listener, srtt, std::max(srtt, max_srtt()), counts_.packets);
  if (reaction == Reaction::kSamePeriod) return;
  const TraceField fields[] = {
      {"receiver", static_cast<double>(member.source)},
      {"reaction", static_cast<double>(reaction)},
      {"cwnd", listening_.cwnd()},
      {"awnd", listening_.awnd()},
      {"num_trouble_rcvr", static_cast<double>(listening_.num_trouble_rcvr())},
      {"pthresh", listening_.pthresh()},
      {"srtt_us", static_cast<double>(srtt.us())},
      {"congestion_interval", member.listener.interval.value()},
      {"min_congestion_interval", listening_.min_congestion_interval()}};
  sink.trace("rla.signal", fields);
}

// To be called after a change in which receivers have `seq` or lost it.
void Sender::evaluate(std::uint32_t seq) {
  PacketState& state = board_.packet(seq);
  if (board_.members() == 0) return;
  if (state.acked == board_.members()) {
    repairs_.take(seq);
    if (state.done) return;
    state.done = true;
    ++counts_.acknowledged;
    if (!state.repeated) {
      rtt_sum_ = rtt_sum_ + (now_ - state.sent);
      ++rtt_samples_;
    }
    listening_.acked_by_all();
    overdue_at_ = now_ + repair_after();
    if (serial_newer(seq, max_reach_all_)) max_reach_all_ = seq;
    return;
  }
  // Footnote 8: the sender waits until it knows about all receivers.
  if (state.lost > 0 && state.acked + state.lost == board_.members()) repairs_.want(seq);
}

void Sender::slide() {
  if (!board_.slide()) return;
  whole_ = false;
  if (serial_newer(board_.base(), max_reach_all_ + 1)) max_reach_all_ = board_.base() - 1;
  finished_ = packets_ > 0 && board_.base() == first_ + packets_;
  backoff_ = 1;
  arm();
}

// --- Sending -------------------------------------------------------------------------------------

std::uint32_t Sender::sendable() const {
  const auto under_way = static_cast<std::int64_t>(board_.under_way());
  std::int64_t limit = settings_.max_window;
  if (board_.members() > 0) {
    // Rule 5: the lower bound moves with max_reach_all; the upper one stays within the receivers'
    // buffers.
    limit = std::min<std::int64_t>(limit, members_.min_rwnd());
    const std::int64_t reached = serial_difference(max_reach_all_, board_.base()) + 1;
    limit = std::min(limit, reached + static_cast<std::int64_t>(listening_.cwnd()));
  } else {
    limit = probe_ && under_way == 0 ? 1 : 0;
  }
  if (packets_ > 0) {
    limit = std::min<std::int64_t>(limit, first_ + packets_ - board_.base());
  }
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, limit - under_way));
}

// Lets packets leave as far as the windows allow, at most max_burst of them. `processed`: the
// random processing time is over.
void Sender::pump(Sink& sink, bool processed) {
  if (!started_ || !subscribed_ || finished_) return;
  std::uint32_t budget = settings_.max_burst;
  repair(budget, sink);
  const std::uint32_t wanted = repairs_.ready_count() + sendable();
  if (wanted <= credits_) return;
  if (settings_.overhead > Duration::zero() && !processed) {
    // RLA 3.1: wait for a random processing time. What may leave by then leaves together, as in
    // ns-2's TCP.
    if (departure_.is_never()) departure_ = now_ + settings_.overhead * rng_.uniform();
    return;
  }
  const std::uint32_t count = std::min(wanted - credits_, budget + repairs_.ready_count());
  if (count == 0) return;
  credits_ += count;
  sink.release(0, count);
}

// Repeats packets that all have received or lost: at once by unicast, or by multicast among the
// next to leave. As many may be out as fit into the window.
void Sender::repair(std::uint32_t& budget, Sink& sink) {
  for (; repairs_.waiting() && budget > 0 && repairs_.out() < listening_.cwnd(); --budget) {
    const std::uint32_t seq = repairs_.next();
    // After a time-out, repeat by multicast: all receivers answer, and one that does not may be
    // dropped.
    if (board_.packet(seq).lost > settings_.rexmit_thresh || backoff_ > 1) {
      repairs_.to_multicast(seq);
    } else {
      board_.repeat(now_, seq, [&](std::uint32_t at) { unicast(seq, members_.at(at), sink); });
    }
  }
}

void Sender::unicast(std::uint32_t seq, const Member& to, Sink& sink) {
  const std::size_t length = write(seq, true, message_);
  if (length == 0) return;
  ++counts_.unicasts;
  sink.send(Destination::receiver(to.address), message_);
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  advance(now);
  if (layer != 0) return 0;
  if (credits_ > 0) --credits_;
  if (!started_ || !subscribed_ || message.size() < wire::RlaData::kBytes + payload_) return 0;
  if (repairs_.ready()) {
    const std::uint32_t seq = repairs_.next_ready();
    board_.repeat(now_, seq, [](std::uint32_t) {});
    ++counts_.packets;
    ++counts_.multicasts;
    return write(seq, true, message);
  }
  if (sendable() == 0) return 0;
  if (overdue_at_.is_never()) overdue_at_ = now_ + repair_after();
  ++counts_.packets;
  return write(board_.push(now_), false, message);
}

std::size_t Sender::write(std::uint32_t seq, bool again, std::span<std::byte> message) {
  wire::RlaData data;
  data.session = config_.session;
  data.seq = seq;
  data.tx_time_us = wire::clock_us(now_);
  departures_.note(data.tx_time_us, board_.next() - 1);
  data.base = board_.base();
  if (again) data.flags |= wire::RlaData::kRetransmission;
  if (whole_) data.flags |= wire::RlaData::kWhole;
  if (packets_ > 0) {
    const std::uint32_t index = seq - first_;
    data.offset = std::uint64_t{index} * payload_;
    const auto part =
        config_.object.subspan(data.offset)
            .first(std::min<std::size_t>(payload_, config_.object.size() - data.offset));
    data.payload_length = static_cast<std::uint16_t>(part.size());
    if (index == packets_ - 1) data.flags |= wire::RlaData::kLast;
    std::copy(part.begin(), part.end(), message.begin() + wire::RlaData::kBytes);
  }
  return wire::write(data, message);
}

// --- Timers --------------------------------------------------------------------------------------

Duration Sender::timeout_after() const {
  return std::min(std::max(members_.max_timeout(), settings_.min_timeout) * backoff_, kMaxTimeout);
}

// Longer than a round trip should take: the largest time-out, and at least twice the largest mean.
Duration Sender::repair_after() const { return std::max(members_.max_timeout(), max_srtt() * 2); }

// The retransmission timer runs whenever there is something to wait for, also if that is only a
// receiver to make itself known.
void Sender::arm() {
  expires_ = started_ && subscribed_ && !finished_ ? now_ + timeout_after() : Time::never();
}

void Sender::timer(Time now, Sink& sink) {
  advance(now);
  if (now_ >= start_at_) {
    start_at_ = Time::never();
    started_ = true;
    probe_ = board_.members() == 0;
    arm();
  }
  const bool processed = now_ >= departure_;
  if (processed) departure_ = Time::never();
  if (now_ >= overdue_at_) overdue(sink);
  if (now_ >= expires_) expire(sink);
  pump(sink, processed);
}

// Rule 1 detects losses by gaps or by time. Without the latter, a small window would stall until
// the time-out if each of its packets is missed by some receiver, because no three later packets
// leave.
void Sender::overdue(Sink& sink) {
  overdue_at_ = Time::never();
  if (!started_ || board_.members() == 0 || board_.under_way() == 0) return;
  const Duration patience = repair_after();
  members_.for_each_active([&](Member& member) {
    bool lost = false;
    board_.missing(member.slot, board_.base(), board_.next(), [&](std::uint32_t seq) {
      if (now_ - board_.packet(seq).sent < patience || !board_.lose(member.slot, seq)) return;
      lost = true;
      evaluate(seq);
    });
    if (lost) congested(member, sink);
  });
  overdue_at_ = now_ + patience;
}

void Sender::expire(Sink& sink) {
  credits_ = 0;  // packets that were released and have not left never will
  const std::uint32_t base = board_.base();
  if (board_.under_way() > 0 && settings_.drop_timeouts > 0) drop_silent(sink);
  if (board_.base() == base && board_.under_way() > 0) {
    ++counts_.timeouts;
    if (board_.members() > 0) listening_.timeout(now_);
    repairs_.forget();
    members_.for_each_active([&](Member& member) {
      board_.missing(member.slot, base, board_.next(),
                     [&](std::uint32_t seq) { board_.lose(member.slot, seq); });
      member.judged = board_.next();
      member.recheck = true;
      member.recheck_at = board_.next() + 3;
    });
    for (std::uint32_t seq = base; seq != board_.next(); ++seq) evaluate(seq);
    trace_window(sink);
  }
  if (board_.members() == 0) {
    // Somebody subscribes, but no receiver is known. The oldest packet, or a new one, will find the
    // receivers.
    probe_ = true;
    if (board_.under_way() > 0 && repairs_.out() == 0) repairs_.to_multicast(base);
  }
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
  arm();
}

// Drops receivers that hold up the window by silence or lack of progress. Not if all of them do:
// then the network is silent, and a receiver that comes back has missed nothing.
void Sender::drop_silent(Sink& sink) {
  const std::uint32_t base = board_.base();
  const Duration patience =
      std::max(members_.max_timeout(), settings_.min_timeout) * settings_.drop_timeouts;
  bool others = !unknown_receiver_at_.is_never() && now_ - unknown_receiver_at_ <= patience;
  members_.for_each_active([&](Member& member) {
    if (board_.cum_ack(member.slot) == base) {
      ++member.timeouts;
    } else {
      others = others || now_ - member.heard <= patience;
    }
  });
  if (!others) return;
  members_.for_each_active([&](Member& member) {
    if (board_.base() == base && board_.cum_ack(member.slot) == base &&
        (member.timeouts >= settings_.drop_timeouts || now_ - member.heard > patience)) {
      remove(member, Change::kSilent, sink);
    }
  });
}

// Once per RTT: work that would cost O(receivers) with each acknowledgement.
void Sender::refresh(Sink& sink) {
  members_.recount();
  listening_.begin_recount();
  members_.for_each_active(
      [this](const Member& member) { listening_.recount_interval(member.listener); });
  members_.for_each_active(
      [this](Member& member) { listening_.recount_troubled(member.listener, counts_.packets); });
  if (settings_.drop_slow_ratio > 0) {
    Member* const slow = members_.slowest(counts_.packets);
    if (slow != nullptr) remove(*slow, Change::kSlow, sink);
  }
  refresh_at_ = now_ + std::max(max_srtt(), Duration::milliseconds(1));
  trace_window(sink);
}

void Sender::trace_window(Sink& sink) {
  const double rtt_us = rtt_samples_ > 0 ? static_cast<double>(rtt_sum_.us()) / rtt_samples_ : 0;
  rtt_sum_ = Duration::zero();
  rtt_samples_ = 0;
  const TraceField fields[] = {
      {"cwnd", listening_.cwnd()},
      {"awnd", listening_.awnd()},
      {"ssthresh", listening_.ssthresh()},
      {"num_trouble_rcvr", static_cast<double>(listening_.num_trouble_rcvr())},
      {"receivers", static_cast<double>(board_.members())},
      {"under_way", static_cast<double>(board_.under_way())},
      {"srtt_max_us", static_cast<double>(max_srtt().us())},
      {"rtt_us", rtt_us},
      {"acknowledged", static_cast<double>(counts_.acknowledged)},
      {"signals", static_cast<double>(listening_.signals())},
      {"randomized_cuts", static_cast<double>(listening_.randomized_cuts())},
      {"forced_cuts", static_cast<double>(listening_.forced_cuts())},
      {"timeouts", static_cast<double>(counts_.timeouts)}};
  sink.trace("rla.window", fields);
}

}  // namespace tiercast::rla
