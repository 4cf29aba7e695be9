// What a sender did from start to end, in a few lines of text.
#pragma once

#include <string>

#include "dataplane/sender/metrics/statistics.h"

namespace tiercast::sender {

// `final`: after the workers have stopped; layers are not needed. `took`: since the start.
std::string summary(const Statistics& final, Duration took);

}  // namespace tiercast::sender
