#include "dataplane/sender/port/send_timestamp.h"

#include <rte_mbuf_dyn.h>

#include <cmath>
#include <thread>
#include <utility>

namespace tiercast::sender {
namespace {

// The driver does not report the rate of its clock. It is measured over this time first, and then
// followed. A reading is off by about a microsecond (a trip over PCIe), and so the rate by 1e-5.
constexpr Duration kFirstMeasurement = Duration::milliseconds(100);
constexpr Duration kMeasurement = Duration::milliseconds(1000);
// No clock drifts this far between two readings, so somebody has set it.
constexpr double kStepNs = 1e6;

}  // namespace

SendTimestamp::SendTimestamp(ReadClock read_clock, const std::function<Time()>& now)
    : read_clock_(std::move(read_clock)) {
  if (!read_clock_(anchor_.ticks)) return;
  anchor_.time = now();
  base_ = anchor_;
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstMeasurement.ns()));
  sync(now());
  if (ticks_per_ns_ <= 0) return;
  std::uint64_t flag = 0;
  if (rte_mbuf_dyn_tx_timestamp_register(&offset_, &flag) != 0) return;
  flag_ = flag;
}

void SendTimestamp::sync(Time now) {
  Reading reading{now, 0};
  if (!read_clock_(reading.ticks)) return;
  const auto ticks_since = [&reading](std::uint64_t ticks) {
    return static_cast<double>(static_cast<std::int64_t>(reading.ticks - ticks));
  };
  const Duration measured = now - base_.time;
  if (ticks_per_ns_ > 0 && std::abs(ticks_since(device_time(now))) > kStepNs * ticks_per_ns_) {
    base_ = reading;  // the rate stays the same
  } else if (measured >= kFirstMeasurement) {
    ticks_per_ns_ = ticks_since(base_.ticks) / static_cast<double>(measured.ns());
    if (measured >= kMeasurement) base_ = reading;
  }
  anchor_ = reading;
}

std::uint64_t SendTimestamp::device_time(Time time) const {
  return anchor_.ticks + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                             static_cast<double>((time - anchor_.time).ns()) * ticks_per_ns_));
}

void SendTimestamp::mark(rte_mbuf* mbuf, Time due) const {
  *RTE_MBUF_DYNFIELD(mbuf, offset_, rte_mbuf_timestamp_t*) = device_time(due);
  mbuf->ol_flags |= flag_;
}

}  // namespace tiercast::sender
