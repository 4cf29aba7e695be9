#include "protocols/common/loss_history.h"

#include <algorithm>

#include "protocols/base/serial.h"

namespace tiercast {
namespace {

// RFC 5348, 5.4.
constexpr double kWeights[LossHistory::kIntervals] = {1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2};

}  // namespace

LossHistory::LossHistory(const Options& options) : options_(options) {
  options_.later_packets = std::clamp(options_.later_packets, 1u, kMaxLater);
}

void LossHistory::reset() { *this = LossHistory(options_); }

LossHistory::Report LossHistory::receive(Time now, std::uint32_t seq, bool ce, Duration window) {
  Report report;
  if (!started_) {
    started_ = true;
    expected_ = seq;
  } else if (serial_newer(expected_, seq)) {
    return report;
  }

  std::size_t place = early_count_;
  while (place > 0 && serial_newer(early_[place - 1].seq, seq)) --place;
  if (place > 0 && early_[place - 1].seq == seq) return report;
  // There is room, because lose_hole() keeps fewer than later_packets <= kMaxLater of them.
  std::copy_backward(early_.begin() + static_cast<std::ptrdiff_t>(place),
                     early_.begin() + static_cast<std::ptrdiff_t>(early_count_),
                     early_.begin() + static_cast<std::ptrdiff_t>(early_count_) + 1);
  early_[place] = {seq, now};
  ++early_count_;
  take_in_order();
  while (early_count_ >= options_.later_packets) {
    lose_hole(early_[0], window, report);
    take_in_order();
  }
  if (ce) congestion(now, seq, window, report);
  return report;
}

void LossHistory::take_in_order() {
  std::size_t taken = 0;
  while (taken < early_count_ && early_[taken].seq == expected_) {
    in_order_at_ = early_[taken].at;
    advance_to(expected_ + 1);
    ++taken;
  }
  std::copy(early_.begin() + static_cast<std::ptrdiff_t>(taken),
            early_.begin() + static_cast<std::ptrdiff_t>(early_count_), early_.begin());
  early_count_ -= taken;
}

// All packets from expected_ up to `after`, exclusive, are lost.
void LossHistory::lose_hole(const Early& after, Duration window, Report& report) {
  const std::uint32_t lost = after.seq - expected_;
  const Duration step =
      std::max(Duration::zero(), after.at - in_order_at_) * (1.0 / (static_cast<double>(lost) + 1));
  for (std::uint32_t i = 0; i < lost;) {
    const Time at = in_order_at_ + step * (i + 1.0);
    congestion(at, expected_ + i, window, report);
    // Skip to the next packet that may lie outside the event.
    const Duration rest = event_at_ + window - at;
    if (step <= Duration::zero() || rest / step >= lost) break;
    i += 1 + static_cast<std::uint32_t>(std::max(0.0, rest / step));
  }
  report.lost += lost;
  advance_to(after.seq);
}

void LossHistory::advance_to(std::uint32_t seq) {
  position_ += seq - expected_;
  expected_ = seq;
}

void LossHistory::congestion(Time at, std::uint32_t seq, Duration window, Report& report) {
  if (events_ > 0 && at <= event_at_ + window) return;
  const std::uint64_t position = position_of(seq);
  const double length = std::max<double>(1, packets_since_start(position));
  const double df = discount(packets_since_start(position_));
  for (std::size_t i = std::min(closed_, kIntervals - 1); i > 0; --i) {
    intervals_[i] = {intervals_[i - 1].packets, intervals_[i - 1].discount * df};
  }
  // Only a part of the first interval was seen. The caller knows how long it would have been.
  if (events_ == 0) {
    counted_first_ = std::max(2.0, length);
    report.first = true;
  }
  intervals_[0] = {events_ == 0 ? counted_first_ : length, 1};
  closed_ = std::min(closed_ + 1, kIntervals);
  ++events_;
  ++report.events;
  event_at_ = at;
  interval_start_ = position;
}

void LossHistory::set_first_interval(double packets) {
  if (events_ == 0 || events_ > kIntervals) return;
  intervals_[events_ - 1].packets = std::max(1.0, packets);
}

std::uint64_t LossHistory::position_of(std::uint32_t seq) const {
  return position_ + static_cast<std::uint64_t>(std::int64_t{serial_difference(seq, expected_)});
}

double LossHistory::packets_since_start(std::uint64_t position) const {
  return position > interval_start_ ? static_cast<double>(position - interval_start_) : 0;
}

double LossHistory::open_interval() const {
  return packets_since_start(early_count_ > 0 ? position_of(early_[early_count_ - 1].seq) + 1
                                              : position_);
}

double LossHistory::mean_closed() const {
  double total = 0;
  double weight = 0;
  for (std::size_t i = 0; i < closed_; ++i) {
    total += intervals_[i].packets * kWeights[i] * intervals_[i].discount;
    weight += kWeights[i] * intervals_[i].discount;
  }
  return total / weight;
}

// RFC 5348, 5.5.
double LossHistory::discount(double open) const {
  if (closed_ == 0) return 1;
  const double twice = 2 * mean_closed();
  return open > twice ? std::max(twice / open, options_.discount_floor) : 1;
}

// RFC 5348, 5.4 and 5.5: the open interval counts only if it makes the mean longer. It takes the
// place of the oldest closed one, also where there are fewer than eight of these.
double LossHistory::loss_event_rate() const {
  if (events_ == 0) return 0;
  const double open = open_interval();
  const double df = discount(open);
  double total = open * kWeights[0];
  double weight = kWeights[0];
  for (std::size_t i = 0; i + 1 < closed_; ++i) {
    total += intervals_[i].packets * kWeights[i + 1] * intervals_[i].discount * df;
    weight += kWeights[i + 1] * intervals_[i].discount * df;
  }
  return std::min(1.0, 1 / std::max(total / weight, mean_closed()));
}

}  // namespace tiercast
