// tiercast-send with many sessions, or at line rate: from the command line to the exit status.
#pragma once

#include "dataplane/sender/options.h"

namespace tiercast::sender {

// ConfigError names option, value and choices.
int run_line(const SenderOptions& options);
// --dry-run: no device, no EAL.
int run_dry(const SenderOptions& options);

}  // namespace tiercast::sender
