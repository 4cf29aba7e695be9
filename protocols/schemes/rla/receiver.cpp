#include "protocols/schemes/rla/receiver.h"

#include <algorithm>
#include <bit>

#include "protocols/base/serial.h"

namespace tiercast::rla {
namespace {

// A packet further ahead of the window than this is a stray one (PROTOCOLS 0.2).
constexpr std::int32_t kMaxAhead = 1 << 16;
// If so many packets of a stream in a row are not new here, though the sender does not repeat them,
// the numbers came from a forged packet.
constexpr unsigned kRepeatsToRestart = 8;
constexpr unsigned kMaxHelloDoublings = 4;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      ring_(std::bit_ceil(settings_.buffer)),
      capacity_(config.packet_size - kIpUdpHeaderBytes -
                static_cast<std::uint32_t>(wire::RlaData::kBytes)),
      slots_(ring_),
      payloads_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{ring_} * capacity_)),
      rng_(config.seed),
      meter_(Duration::seconds(1)) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
  say_hello(sink);
}

void Receiver::stop(Time now, Sink& sink) {
  now_ = std::max(now_, now);
  hello_at_ = Time::never();
  if (!reception_.joined()) return;
  wire::RlaAck bye;
  bye.flags = wire::RlaAck::kBye;
  bye.cum_ack = cum_ack_;
  send(bye, sink);
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = meter_.rate(now_);
  counters.delivered = delivered_;
  counters.complete = complete_;
  return counters;
}

void Receiver::say_hello(Sink& sink) {
  wire::RlaAck ack;
  ack.flags = wire::RlaAck::kHello;
  send(ack, sink);
  const double doubled = 1u << std::min(hellos_++, kMaxHelloDoublings);
  hello_at_ = now_ + settings_.hello_interval * (doubled * (0.5 + rng_.uniform()));
}

void Receiver::timer(Time now, Sink& sink) {
  now_ = std::max(now_, now);
  if (now_ >= hello_at_) say_hello(sink);
}

void Receiver::send(wire::RlaAck& ack, Sink& sink) const {
  ack.session = config_.session;
  ack.source = config_.self_id;
  ack.rwnd = static_cast<std::uint16_t>(settings_.buffer);
  if (incomplete_) ack.flags |= wire::RlaAck::kIncomplete;
  std::array<std::byte, wire::RlaAck::kMaxBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(ack, message)});
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now_ = std::max(now_, now);
  if (!reception_.joined()) return;
  wire::RlaData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session ||
      data.payload_length > capacity_ ||
      !belongs(data, arrival.message.size() - wire::RlaData::kBytes)) {
    reception_.refuse();
    return;
  }
  hello_at_ = Time::never();
  reception_.count(arrival);
  meter_.add(now_, arrival.ip_length);

  const std::uint32_t cum_before = cum_ack_;
  if (serial_newer(data.base, cum_ack_)) skip_to(data.base, sink);
  store(data, arrival.message.subspan(wire::RlaData::kBytes, data.payload_length));
  deliver_in_order(sink);
  if (cum_ack_ != cum_before) waiting_since_ = now_;
  acknowledge(data, sink);
}

// Whether the packet is from the sender that this receiver follows. `part`: bytes of the object in
// each packet except the last.
bool Receiver::belongs(const wire::RlaData& data, std::size_t part) {
  std::uint32_t first = 0;  // the object's first packet; 0 for a stream
  if (data.payload_length > 0) {
    const bool last = (data.flags & wire::RlaData::kLast) != 0;
    if (data.offset % part != 0 || data.offset / part > 0x7fffffff ||
        (!last && data.payload_length != part)) {
      return false;
    }
    first = data.seq - static_cast<std::uint32_t>(data.offset / part);
    if (data.base - first > data.seq - first) return false;
  }
  const std::int32_t distance = serial_difference(data.seq, cum_ack_);
  // No sender repeats packets that are further behind than its window.
  if (started_ && first == first_ && distance >= -static_cast<std::int32_t>(ring_) &&
      distance <= kMaxAhead) {
    strays_.clear();
    if (distance >= 0) {
      repeats_ = 0;
    } else if ((data.flags & wire::RlaData::kRetransmission) == 0) {
      ++repeats_;
    }
    if (data.payload_length == 0 && repeats_ >= kRepeatsToRestart) begin(data);
    return true;
  }
  if (started_ && !strays_.restarted(data.seq)) return false;
  first_ = first;
  begin(data);
  return true;
}

// Takes the first packet of a session. A receiver that comes while everything is still repeated
// starts at the first packet. A later one starts here and will not have the whole object.
void Receiver::begin(const wire::RlaData& data) {
  const bool whole = (data.flags & wire::RlaData::kWhole) != 0 && data.seq - data.base < ring_;
  started_ = true;
  repeats_ = 0;
  run_count_ = 0;
  cum_ack_ = reach_ = whole ? data.base : data.seq;
  waiting_since_ = now_;
  for (Slot& slot : slots_) slot.filled = false;
  if (!whole) incomplete_ = true;
}

void Receiver::store(const wire::RlaData& data, std::span<const std::byte> bytes) {
  const std::uint32_t ahead = data.seq - cum_ack_;
  if (ahead >= settings_.buffer) return;  // received already, or no room
  if (slot(data.seq).filled) return;
  slot(data.seq) = {true, (data.flags & wire::RlaData::kLast) != 0, data.payload_length,
                    data.offset};
  std::copy(bytes.begin(), bytes.end(), payload(data.seq));
  if (!serial_newer(reach_, data.seq)) {
    reception_.lose(data.seq - reach_);
    reach_ = data.seq + 1;
  }
  if (ahead > 0) note_run(data.seq);
}

void Receiver::take(Slot& slot, Sink& sink) {
  slot.filled = false;
  const std::uint64_t end = slot.offset + slot.length;
  if (slot.length > 0 && end > delivered_to_) {
    // After a restart of the sender, nothing is delivered a second time.
    const std::uint64_t from = std::max(slot.offset, delivered_to_);
    if (from > delivered_to_ && !incomplete_) incomplete_ = true;
    const std::byte* bytes = payload(cum_ack_) + (from - slot.offset);
    sink.deliver(from, {bytes, static_cast<std::size_t>(end - from)});
    delivered_ += end - from;
    delivered_to_ = end;
  }
  if (slot.last) complete_ = !incomplete_;
  ++cum_ack_;
}

void Receiver::deliver_in_order(Sink& sink) {
  while (slot(cum_ack_).filled) take(slot(cum_ack_), sink);
  // Remove runs that are now in order.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < run_count_; ++i) {
    if (serial_newer(runs_[i].start, cum_ack_)) runs_[kept++] = runs_[i];
  }
  run_count_ = kept;
  if (serial_newer(cum_ack_, reach_)) reach_ = cum_ack_;
}

// The sender no longer repeats packets before `base`.
void Receiver::skip_to(std::uint32_t base, Sink& sink) {
  for (std::uint32_t n = 0; n < ring_ && cum_ack_ != base; ++n) {
    if (slot(cum_ack_).filled) {
      take(slot(cum_ack_), sink);
    } else {
      incomplete_ = true;
      ++cum_ack_;
    }
  }
  cum_ack_ = base;
}

// RFC 2018, section 4: first the run with the latest packet, then the runs that were reported last.
void Receiver::note_run(std::uint32_t seq) {
  wire::RlaSack run{seq, seq + 1};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < run_count_; ++i) {
    const wire::RlaSack other = runs_[i];
    if (other.end == run.start) {
      run.start = other.start;
    } else if (other.start == run.end) {
      run.end = other.end;
    } else {
      runs_[kept++] = other;
    }
  }
  run_count_ = std::min(kept + 1, runs_.size());
  for (std::size_t i = run_count_ - 1; i > 0; --i) runs_[i] = runs_[i - 1];
  runs_[0] = run;
}

void Receiver::acknowledge(const wire::RlaData& data, Sink& sink) {
  wire::RlaAck ack;
  ack.cum_ack = cum_ack_;
  ack.echo_time_us = data.tx_time_us;
  ack.record_count = static_cast<std::uint8_t>(std::min(run_count_, wire::RlaAck::kMaxRecords));
  std::copy_n(runs_.begin(), ack.record_count, ack.sacks.begin());
  if (settings_.rexmit_now_after > Duration::zero() && run_count_ > 0 &&
      now_ - waiting_since_ > settings_.rexmit_now_after) {
    ack.flags |= wire::RlaAck::kRexmitNow;
    waiting_since_ = now_;
  }
  send(ack, sink);
}

}  // namespace tiercast::rla
