// SessionPacing for tests of schemes with a highest rate: checks that no layer is set above it.
#pragma once

#include <gtest/gtest.h>

#include "protocols/driver/session_pacing.h"

namespace tiercast {

class CappedPacing : public SessionPacing {
 public:
  CappedPacing(const SessionConfig& config, Rate cap) : SessionPacing(config), cap_(cap) {}
  void set_rate(Time now, Rank layer, Rate rate) {
    ASSERT_LE(rate, cap_);
    SessionPacing::set_rate(now, layer, rate);
  }

 private:
  Rate cap_;
};

}  // namespace tiercast
