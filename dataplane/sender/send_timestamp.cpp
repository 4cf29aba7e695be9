#include "dataplane/sender/send_timestamp.h"

#include <rte_mbuf_dyn.h>

#include <thread>
#include <utility>

namespace tiercast::sender {

SendTimestamp::SendTimestamp(ReadClock read_clock, const std::function<Time()>& now)
    : read_clock_(std::move(read_clock)) {
  std::uint64_t ticks = 0;
  if (!read_clock_(ticks)) return;
  anchor_ticks_ = ticks;
  anchor_ = now();
  // Its rate is not told: measured over 10 ms, and followed afterwards.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  sync(now());
  if (ticks_per_ns_ <= 0) return;
  std::uint64_t flag = 0;
  if (rte_mbuf_dyn_tx_timestamp_register(&offset_, &flag) != 0) return;
  flag_ = flag;
}

void SendTimestamp::sync(Time now) {
  std::uint64_t ticks = 0;
  const std::int64_t elapsed = (now - anchor_).ns();
  if (elapsed <= 0 || !read_clock_(ticks) || ticks <= anchor_ticks_) return;
  ticks_per_ns_ = static_cast<double>(ticks - anchor_ticks_) / static_cast<double>(elapsed);
  anchor_ticks_ = ticks;
  anchor_ = now;
}

std::uint64_t SendTimestamp::device_time(Time time) const {
  return anchor_ticks_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                             static_cast<double>((time - anchor_).ns()) * ticks_per_ns_));
}

void SendTimestamp::mark(rte_mbuf* mbuf, Time due) const {
  *RTE_MBUF_DYNFIELD(mbuf, offset_, rte_mbuf_timestamp_t*) = device_time(due);
  mbuf->ol_flags |= flag_;
}

}  // namespace tiercast::sender
