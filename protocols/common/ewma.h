// Exponentially weighted moving average (PROTOCOLS 0.3): x <- (1-a)x + a*sample. The first sample
// sets x.
#pragma once

namespace tiercast {

class Ewma {
 public:
  // `weight`: a, in (0, 1].
  explicit constexpr Ewma(double weight) : weight_(weight) {}

  constexpr void update(double sample) {
    value_ = valid_ ? (1 - weight_) * value_ + weight_ * sample : sample;
    valid_ = true;
  }
  constexpr void reset() {
    value_ = 0;
    valid_ = false;
  }
  // False until the first sample.
  constexpr bool valid() const { return valid_; }
  // 0 while not valid().
  constexpr double value() const { return value_; }

 private:
  double weight_;
  double value_ = 0;
  bool valid_ = false;
};

}  // namespace tiercast
