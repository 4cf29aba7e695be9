#include "dataplane/streams/stream_table.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "protocols/base/serial.h"

namespace tiercast::streams {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// The sender's times are compared as serial numbers, which is right up to 2^31 us (35.8 minutes).
// What arrives after a longer silence was sent later: no network keeps a packet for so long.
constexpr std::int64_t kSilenceNs = std::int64_t{30} * 60 * 1'000'000'000;

}  // namespace

StreamTable::StreamTable(std::uint32_t capacity)
    : slots_(std::bit_ceil(std::max<std::size_t>(2 * std::size_t{capacity}, 16))),
      mask_(slots_.size() - 1),
      shift_(64 - static_cast<unsigned>(std::countr_zero(slots_.size()))),
      streams_(capacity) {}

void StreamTable::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  const std::uint32_t used = size_.exchange(0);
  for (std::uint32_t i = 0; i < used; ++i) {
    std::destroy_at(&streams_[i]);
    std::construct_at(&streams_[i]);
  }
}

std::uint32_t StreamTable::add(std::uint32_t group, std::uint32_t source) {
  const std::uint32_t index = size();
  if (index == streams_.size()) return kNone;
  const std::uint64_t key = key_of(group, source);
  std::size_t at = hash(key);
  while (slots_[at].index != kNone) at = (at + 1) & mask_;
  slots_[at] = {key, index};
  streams_[index].group = group;
  streams_[index].source = source;
  size_.store(index + 1, std::memory_order_release);
  return index;
}

Order StreamTable::account(std::uint32_t index, const DataFrame& frame, std::int64_t arrival_ns) {
  Stream& stream = streams_[index];
  const bool started = stream.sequence.started();
  const bool later = frame.stamped && started &&
                     (serial_newer(frame.sent, stream.last_sent) ||
                      arrival_ns - stream.last_arrival_ns.load(kRelaxed) > kSilenceNs);
  const Departure departure = !frame.stamped || frame.repeats ? Departure::kUnknown
                              : later                         ? Departure::kLater
                                                              : Departure::kNotLater;
  const std::uint64_t lost = stream.sequence.lost();
  const Order order = stream.sequence.arrive(frame.seq, departure);
  if (order == Order::kInOrder && stream.sequence.lost() > lost) [[unlikely]] {
    stream.last_gap_ns.store(arrival_ns, kRelaxed);
    const std::int64_t cut = arrival_ns - stream.last_arrival_ns.load(kRelaxed);
    if (cut > stream.longest_cut_ns.load(kRelaxed)) stream.longest_cut_ns.store(cut, kRelaxed);
  }
  if (frame.stamped) {
    if (later || !started || order == Order::kRestart) stream.last_sent = frame.sent;
    stream.stamped.add();
    stream.latency_bins.add(frame.latency_ns, stream.latency_run);
    stream.latency_sum_ns.store(stream.latency_sum_ns.load(kRelaxed) + frame.latency_ns, kRelaxed);
    if (frame.latency_ns < stream.latency_min_ns.load(kRelaxed)) {
      stream.latency_min_ns.store(frame.latency_ns, kRelaxed);
    }
    if (frame.latency_ns > stream.latency_max_ns.load(kRelaxed)) {
      stream.latency_max_ns.store(frame.latency_ns, kRelaxed);
    }
  }
  if (started) {
    stream.gap_bins.add(arrival_ns - stream.last_arrival_ns.load(kRelaxed), stream.gap_run);
  } else {
    stream.first_arrival_ns.store(arrival_ns, kRelaxed);
  }
  stream.last_arrival_ns.store(arrival_ns, kRelaxed);
  stream.bytes.add(frame.ip_bytes);
  if (frame.ecn == wire::Ecn::kCe) stream.marked.add();
  if (order == Order::kReordered && stream.sequence.extent() != Sequence::kUnknown) [[unlikely]] {
    const std::uint64_t extent = stream.sequence.extent();
    if (extent > stream.extent_max.get()) stream.extent_max.set(extent);
    stream.extent_sum.add(extent);
    stream.extents.add();
  }
  return order;
}

}  // namespace tiercast::streams
