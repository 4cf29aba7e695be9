// A bound on how often something is done: so many times in each second.
#pragma once

#include "protocols/base/units.h"

namespace tiercast {

class PerSecond {
 public:
  explicit PerSecond(unsigned most) : most_(most) {}

  // Whether it may be done once more.
  bool take(Time now) {
    if (now - began_ >= Duration::seconds(1)) {
      began_ = now;
      taken_ = 0;
    }
    if (taken_ >= most_) return false;
    ++taken_;
    return true;
  }

 private:
  unsigned most_;
  unsigned taken_ = 0;
  Time began_;  // of this second
};

}  // namespace tiercast
