// Runs tiercast-send, from its options to its exit status.
#pragma once

#include "dataplane/sender/options.h"

namespace tiercast::sender {

// ConfigError names the option, its value and the choices.
int run_sender(const SenderOptions& options);
// For --dry-run: uses no device and no EAL.
int run_dry(const SenderOptions& options);

}  // namespace tiercast::sender
