// Confines a program to the system calls that it needs once its sockets are open, so that an error
// in it which a packet or a call finds gains little (docs/security.md).
#pragma once

namespace tiercast {

// For all threads of the process: a system call that is not among those of the programs
// (sandbox.cpp lists them) fails with EPERM. No program can be executed and no process started,
// traced or given another namespace. With AddressSanitizer or ThreadSanitizer, which need such
// calls, it does nothing. Throws std::runtime_error.
void confine();

inline constexpr const char* kNoSandboxHelp =
    "keep all rights: every capability, and every system call";

}  // namespace tiercast
