// A sender's figures in the terminal: a table that is redrawn in place.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "dataplane/dpdk/short_text.h"
#include "dataplane/sender/metrics/statistics.h"

namespace tiercast::sender {

class LiveView {
 public:
  // Rates and lateness since the last call. `now` must include its layers.
  std::string draw(const Statistics& now);

  // Draws the table over the previous one, on a terminal.
  void show(const Statistics& now, std::FILE* terminal);

 private:
  std::optional<Statistics> last_;
  Time first_;
  dpdk::RedrawnText redrawn_;
};

}  // namespace tiercast::sender
