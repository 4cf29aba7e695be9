// A table in the terminal, redrawn in place: what each port receives, and its worst streams.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "dataplane/dpdk/short_text.h"
#include "dataplane/receiver/show/report.h"
#include "dataplane/receiver/show/totals.h"
#include "protocols/base/units.h"

namespace tiercast::receiver {

class LiveView {
 public:
  // Rates since the last call.
  std::string draw(Time now, const Ports& ports);
  void show(Time now, const Ports& ports, std::FILE* terminal) {
    redrawn_.show(draw(now, ports), terminal);
  }

 private:
  struct Reading {
    std::uint64_t frames = 0;
    Totals totals;
  };
  Time first_, last_;
  std::vector<Reading> before_;
  dpdk::RedrawnText redrawn_;
};

}  // namespace tiercast::receiver
