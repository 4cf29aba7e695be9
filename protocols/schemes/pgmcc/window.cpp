#include "protocols/schemes/pgmcc/window.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tiercast::pgmcc {

double slowness(double rtt, double loss) {
  // The TCP equation without its constant (PROTOCOLS 1.2).
  return rtt * std::sqrt(loss) * (1 + 9 * loss * (1 + 32 * loss * loss));
}

Window::Window(const Settings& settings, std::uint32_t first)
    : settings_(settings),
      // Twice W, because after a cut packets stay under way for more than a round trip.
      mask_(std::bit_ceil(2 * std::max(64u, settings.max_window)) - 1),
      next_(first),
      base_(first),
      top_(first),
      recover_(first),
      states_(mask_ + 1, State::kSettled) {}

std::uint32_t Window::sendable() const {
  if (tokens_ < 1) return 0;
  return std::min(static_cast<std::uint32_t>(tokens_), mask_ + 1 - (next_ - base_));
}

std::uint32_t Window::send() {
  tokens_ -= 1;
  state(next_) = State::kOut;
  sent_ = std::min(sent_ + 1, kRecent);
  return next_++;
}

Window::Outcome Window::acknowledge(std::uint32_t rx_max, std::uint32_t bitmap) {
  Outcome outcome;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t seq = rx_max - i;
    if ((bitmap >> i & 1) == 0 || seq - base_ >= next_ - base_ || state(seq) != State::kOut)
      continue;
    state(seq) = State::kAcked;
    ++outcome.acked;
    if (!serial_newer(top_, seq)) top_ = seq + 1;
  }
  // A packet is lost when three acknowledged packets follow it.
  std::uint32_t followers = 0;
  bool newly = false;  // lost after the last cut
  for (std::uint32_t seq = top_; serial_newer(seq, base_);) {
    --seq;
    if (state(seq) == State::kAcked) {
      ++followers;
    } else if (state(seq) == State::kOut && followers >= 3) {
      state(seq) = State::kSettled;
      ++outcome.lost;
      newly = newly || !serial_newer(recover_, seq);
    }
  }
  while (serial_newer(top_, base_) && state(base_) != State::kOut) {
    state(base_) = State::kSettled;
    ++base_;
  }
  if (recovering_ && !serial_newer(recover_, rx_max)) recovering_ = false;
  // Left behind, it would look newer than all packets once 2^31 have gone through without a loss.
  if (serial_newer(base_, recover_)) recover_ = base_;

  if (outcome.lost > 0 && newly) {
    outcome.cut = true;
    tokens_ -= w_ / 2;
    w_ = std::max(1.0, w_ / 2);
    recovering_ = true;
    recover_ = next_;
  }
  // A lost packet is no longer under way. If its token were not returned, T would stay below W for
  // good.
  double n = outcome.acked;
  tokens_ += outcome.lost;
  if (recovering_) {
    tokens_ += n;
  } else {
    if (w_ < settings_.ssthresh) {
      const double d = std::min(n, settings_.ssthresh - w_);
      tokens_ += 2 * d;
      w_ += d;
      n -= d;
    }
    tokens_ += n * (1 + 1 / w_);
    w_ += n / w_;
  }
  const auto most = static_cast<double>(settings_.max_window);
  w_ = std::min(w_, most);
  tokens_ = std::min(tokens_, most);
  return outcome;
}

void Window::restart() {
  for (; base_ != next_; ++base_) state(base_) = State::kSettled;
  top_ = recover_ = base_;
  recovering_ = false;
  w_ = tokens_ = 1;
}

}  // namespace tiercast::pgmcc
