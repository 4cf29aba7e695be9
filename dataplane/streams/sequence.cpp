#include "dataplane/streams/sequence.h"

#include <algorithm>

namespace tiercast::streams {

Order Sequence::arrive(std::uint32_t seq, Departure departure) {
  if (!started()) [[unlikely]] {
    begin(seq);
    return Order::kInOrder;
  }
  const std::uint32_t ahead = seq - next_;
  if (ahead <= kMaxDropout) [[likely]] {
    odd_run_ = 0;
    advance(seq, ahead);
    return Order::kInOrder;
  }
  if (departure == Departure::kLater) {
    begin(seq);
    return Order::kRestart;
  }
  const std::uint32_t behind = next_ - seq;  // 1: the highest number so far
  if (behind > kWindow) return out_of_place(seq, departure);
  odd_run_ = 0;
  if (arrived(seq)) {
    duplicates_.add();
    return Order::kDuplicate;
  }
  write_bits(seq, seq + 1, true);
  ++arrivals_;
  reordered_.add();
  const std::uint32_t below = first_ - seq;
  if (below > 0 && below <= kWindow) {
    // Older than the first one that arrived: the epoch began earlier.
    lost_.add(below - 1);
    first_ = seq;
  } else {
    lost_.set(lost_.get() - 1);
  }
  find_extent(seq);
  return Order::kReordered;
}

void Sequence::begin(std::uint32_t seq) {
  epochs_.add();
  window_.fill(0);
  first_ = seq;
  dense_from_ = seq;
  next_ = seq + 1;
  arrivals_ = 1;
  in_order_.add();
  odd_run_ = 0;
  // What is older than the first packet was overtaken by it.
  gap_[0] = {seq - kWindow, 1};
  gaps_ = 1;
  newest_gap_ = 0;
}

void Sequence::advance(std::uint32_t seq, std::uint32_t missing) {
  ++arrivals_;
  in_order_.add();
  if (missing > 0) {
    lost_.add(missing);
    newest_gap_ = static_cast<std::uint8_t>((newest_gap_ + 1) % kGaps);
    gap_[newest_gap_] = {next_, arrivals_};
    gaps_ = static_cast<std::uint8_t>(std::min<std::uint32_t>(gaps_ + 1u, kGaps));
    if (missing >= kWindow) {
      window_.fill(0);
    } else {
      write_bits(dense_from_, next_, true);
      write_bits(next_, seq, false);
    }
    dense_from_ = seq;
  }
  next_ = seq + 1;
  if (next_ - first_ > kWindow) first_ = next_ - kWindow;
  if (next_ - dense_from_ > kWindow) dense_from_ = next_ - kWindow;
}

void Sequence::write_bits(std::uint32_t first, std::uint32_t end, bool value) {
  while (first != end) {
    const std::uint32_t bit = first % 64;
    const std::uint32_t count = std::min(64 - bit, end - first);
    const std::uint64_t mask = (~0ull >> (64 - count)) << bit;
    std::uint64_t& word = window_[first % kWindow / 64];
    word = value ? word | mask : word & ~mask;
    first += count;
  }
}

Order Sequence::out_of_place(std::uint32_t seq, Departure departure) {
  if (odd_run_ == 0 || seq != odd_) odd_run_ = 0;
  ++odd_run_;
  odd_ = seq + 1;
  if (odd_run_ < kRestartRun || departure == Departure::kNotLater) {
    odd_run_ = std::min<std::uint8_t>(odd_run_, kRestartRun);
    stale_.add();
    return Order::kStale;
  }
  stale_.set(stale_.get() - (kRestartRun - 1));
  begin(seq - (kRestartRun - 1));
  for (std::uint32_t i = kRestartRun - 1; i-- > 0;) advance(seq - i, 0);
  return Order::kRestart;
}

void Sequence::find_extent(std::uint32_t seq) {
  extent_ = kUnknown;
  for (std::uint32_t i = 0; i < gaps_; ++i) {
    const Gap& gap = gap_[(newest_gap_ + kGaps - i) % kGaps];
    if (seq - gap.first < 1u << 31) {  // serial: it does not begin after seq
      extent_ = arrivals_ - gap.arrival;
      return;
    }
  }
}

}  // namespace tiercast::streams
