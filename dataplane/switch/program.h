// Runs the program: options, log, ports and P4Runtime, until SIGINT or SIGTERM.
#pragma once

namespace tiercast::vswitch {

// Returns the process's exit status: 0, or 2 for a wrong argument.
int switch_main(int argc, const char* const* argv);

}  // namespace tiercast::vswitch
