// Measures how exact emulated links are in virtual time.
#pragma once

#include <memory>
#include <string>

#include "dataplane/engine/api/program.h"

namespace tiercast::bench {

// Runs a link with a queue of 50 packets, kept full by TCP frames of 54 to 1514 bytes, at rates
// from 64 kbit/s to 10 Gbit/s. Returns a JSON object with, for each rate: its relative error over
// the whole run; the largest deviation (ns) of a departure from the instant that follows from the
// bits before it; and whether the queue held exactly its limit and every frame left or was counted
// as dropped. Throws std::runtime_error if the program refuses the entries.
std::string link_accuracy(const std::shared_ptr<const engine::Program>& program);

}  // namespace tiercast::bench
