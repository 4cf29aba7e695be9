// Runs tiercast-recv, from its options to its exit status.
#pragma once

#include "dataplane/receiver/options.h"

namespace tiercast::receiver {

// ConfigError names the option, its value and the choices.
int run_receiver(const ReceiverOptions& options);

}  // namespace tiercast::receiver
