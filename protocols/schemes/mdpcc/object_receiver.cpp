#include "protocols/schemes/mdpcc/object_receiver.h"

#include <algorithm>
#include <cmath>

#include "protocols/common/exponential_timer.h"

namespace tiercast::mdpcc {
namespace {

// After this many messages in a row of another transfer, ours is over. One forged or broken message
// must not discard what has arrived.
constexpr unsigned kOthersInARow = 8;

}  // namespace

ObjectReceiver::ObjectReceiver(unsigned max_segments, std::uint64_t seed)
    : max_segments_(max_segments), rng_(seed), received_(max_segments), asked_(max_segments) {}

bool ObjectReceiver::belongs(std::uint16_t object_id, std::uint16_t segment_size,
                             std::uint32_t segment_count) {
  if (segment_count > max_segments_ || segment_size == 0) return false;
  if (segment_count_ > 0 && object_id == object_id_) {
    others_in_a_row_ = 0;
    return segment_size == segment_size_ && segment_count == segment_count_;
  }
  if (segment_count_ > 0) {
    others_in_a_row_ = object_id == other_id_ ? others_in_a_row_ + 1 : 1;
    other_id_ = object_id;
    if (others_in_a_row_ < kOthersInARow) return false;
    received_.clear();
    asked_.clear();
    known_end_ = 0;
    ask_end_ = 0;
    first_missing_ = 0;
    delivered_ = 0;
    phase_ = Phase::kIdle;
    deadline_ = Time::never();
  }
  others_in_a_row_ = 0;
  object_id_ = object_id;
  segment_size_ = segment_size;
  segment_count_ = segment_count;
  return true;
}

bool ObjectReceiver::data(Time now, const wire::MdpccData& data, std::span<const std::byte> payload,
                          const Timing& timing, Sink& sink) {
  if (data.segment >= data.segment_count || data.payload_length > payload.size() ||
      data.payload_length == 0 || data.payload_length > data.segment_size ||
      // Only the last segment may be short.
      (data.segment + 1 < data.segment_count && data.payload_length != data.segment_size) ||
      !belongs(data.object_id, data.segment_size, data.segment_count)) {
    return false;
  }
  if (received_.insert(data.segment)) {
    delivered_ += data.payload_length;
    sink.deliver(std::uint64_t{data.segment} * segment_size_, payload.first(data.payload_length));
  }
  known_end_ = std::max(known_end_, data.segment + 1);
  ask_later(now, timing);
  return true;
}

void ObjectReceiver::progress(Time now, const wire::MdpccProbe& probe, const Timing& timing) {
  if (probe.segment_count == 0 || probe.next_segment > probe.segment_count ||
      !belongs(probe.object_id, probe.segment_size, probe.segment_count)) {
    return;
  }
  known_end_ = std::max(known_end_, probe.next_segment);
  if (phase_ != Phase::kIdle) deadline_ = std::min(deadline_, now + longest(phase_, timing));
  ask_later(now, timing);
}

void ObjectReceiver::heard(const wire::MdpccNack& nack) {
  if (phase_ != Phase::kBackoff || nack.object_id != object_id_) return;
  for (std::size_t i = 0; i < nack.record_count; ++i) {
    const wire::MdpccSegments& range = nack.segments[i];
    asked_.insert(std::max(range.first, first_missing_), range.end(ask_end_));
  }
}

Duration ObjectReceiver::longest(Phase phase, const Timing& timing) {
  return timing.grtt * (phase == Phase::kBackoff ? timing.backoff : timing.backoff + 2);
}

void ObjectReceiver::ask_later(Time now, const Timing& timing) {
  first_missing_ = received_.next_absent(first_missing_, known_end_);
  if (phase_ != Phase::kIdle || first_missing_ == known_end_) return;
  phase_ = Phase::kBackoff;
  ask_end_ = known_end_;
  asked_.clear();
  // NORM's density: lambda = ln(group size) + 1 (PROTOCOLS 0.3).
  deadline_ =
      now + exponential_wait(longest(phase_, timing),
                             std::log(static_cast<double>(timing.group_size)) + 1, rng_.uniform());
}

ObjectReceiver::Asking ObjectReceiver::timer(Time now, const Timing& timing,
                                             wire::MdpccNack& nack) {
  if (now < deadline_) return Asking::kNothing;
  if (phase_ == Phase::kHoldoff) {
    phase_ = Phase::kIdle;
    deadline_ = Time::never();
    ask_later(now, timing);
    return Asking::kNothing;
  }
  nack.object_id = object_id_;
  nack.record_count = 0;
  std::uint32_t at = received_.next_absent(first_missing_, ask_end_);
  while (at < ask_end_ && nack.record_count < wire::MdpccNack::kMaxRecords) {
    const std::uint32_t first = at;
    while (at < ask_end_ && !received_.contains(at) && !asked_.contains(at)) ++at;
    if (at > first) nack.segments[nack.record_count++] = {first, at - first};
    // Skip what has been asked for already, to the next segment that is missing.
    if (at < ask_end_) at = received_.next_absent(at + 1, ask_end_);
  }
  phase_ = Phase::kHoldoff;
  deadline_ = now + longest(phase_, timing);
  return nack.record_count > 0 ? Asking::kNack : Asking::kSuppressed;
}

}  // namespace tiercast::mdpcc
