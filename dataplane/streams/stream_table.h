// The streams that arrive at a port, and the account of each: a stream is what one source sends to
// one group (or host).
//
// Room for all streams is taken at the start; nothing is allocated afterwards. One thread adds
// streams and accounts for packets, others may read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/counter.h"
#include "dataplane/streams/data_frame.h"
#include "dataplane/streams/delay_bins.h"
#include "dataplane/streams/sequence.h"
#include "protocols/base/huge_pages.h"

namespace tiercast::streams {

// received = in order + reordered + duplicates + stale.
struct alignas(64) Stream {
  Sequence sequence;
  // A cache line, beside the sequence's first one all that a steady stream's packet changes.
  std::atomic<std::int64_t> last_arrival_ns{0};
  std::atomic<std::int64_t> latency_min_ns{std::numeric_limits<std::int64_t>::max()};
  std::atomic<std::int64_t> latency_max_ns{std::numeric_limits<std::int64_t>::min()};
  std::atomic<std::int64_t> latency_sum_ns{0};
  Counter stamped;              // packets with a time of departure
  Counter bytes;                // IP, of all packets that arrived
  Counter marked;               // with CE
  std::uint32_t last_sent = 0;  // the latest departure of the epoch, where packets are stamped
  DelayRun latency_run;
  DelayRun gap_run;

  DelayBins latency_bins;
  DelayBins gap_bins;
  Counter extent_sum;  // of the reordered packets whose extent is known
  Counter extents;     // how many these are
  Counter extent_max;
  std::atomic<std::int64_t> first_arrival_ns{0};
  std::atomic<std::int64_t> last_gap_ns{0};  // arrival of the latest packet behind a gap; 0: none
  // The longest time between two arrivals with lost numbers in between: how long the stream was
  // cut.
  std::atomic<std::int64_t> longest_cut_ns{0};
  std::uint32_t source = 0;  // host order
  std::uint32_t group = 0;

  DelayCounts latency() const { return {latency_bins, latency_run}; }
  DelayCounts gaps() const { return {gap_bins, gap_run}; }  // between arrivals
  // Not above the largest.
  std::int64_t latency_quantile(double share) const {
    return std::min(latency().quantile(share), latency_max_ns.load(std::memory_order_relaxed));
  }
  std::uint64_t received() const {
    return sequence.in_order() + sequence.reordered() + sequence.duplicates() + sequence.stale();
  }
};

class StreamTable {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  explicit StreamTable(std::uint32_t capacity);

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(streams_.size()); }
  std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
  // `index` < size(), in the order in which the streams were added.
  const Stream& operator[](std::uint32_t index) const { return streams_[index]; }

  // kNone: there is none.
  std::uint32_t find(std::uint32_t group, std::uint32_t source) const {
    const std::uint64_t key = key_of(group, source);
    for (std::size_t at = hash(key);; at = (at + 1) & mask_) {
      if (slots_[at].index == kNone || slots_[at].key == key) return slots_[at].index;
    }
  }
  // Forgets all streams. No other thread may read them meanwhile.
  void clear();
  // Must not be there. kNone: no room.
  std::uint32_t add(std::uint32_t group, std::uint32_t source);
  // Accounts for a packet of stream `index`.
  Order account(std::uint32_t index, const DataFrame& frame, std::int64_t arrival_ns);

  // Hints for packets that are about to be accounted for, in this order.
  void prefetch_slot(std::uint32_t group, std::uint32_t source) const {
    __builtin_prefetch(&slots_[hash(key_of(group, source))]);
  }
  void prefetch_stream(std::uint32_t index) const {
    const auto* const stream = reinterpret_cast<const char*>(&streams_[index]);
    __builtin_prefetch(stream, 1);
    __builtin_prefetch(stream + offsetof(Stream, last_arrival_ns), 1);
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t index = kNone;
  };

  static std::uint64_t key_of(std::uint32_t group, std::uint32_t source) {
    return static_cast<std::uint64_t>(group) << 32 | source;
  }
  std::size_t hash(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15ull;
    return (key ^ key >> 32) * 0x9E3779B97F4A7C15ull >> shift_;
  }

  std::vector<Slot, HugePages<Slot>> slots_;  // a power of two, at most half full
  std::size_t mask_;
  unsigned shift_;
  std::vector<Stream, HugePages<Stream>> streams_;
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace tiercast::streams
