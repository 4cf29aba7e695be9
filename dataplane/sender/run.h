// tiercast-send from its options to its exit status.
#pragma once

#include "dataplane/sender/options.h"

namespace tiercast::sender {

// ConfigError names option, value and choices.
int run_sender(const SenderOptions& options);
// --dry-run: no device, no EAL.
int run_dry(const SenderOptions& options);

}  // namespace tiercast::sender
