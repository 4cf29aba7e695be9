// Gives up rights that a program needs at its start alone.
#pragma once

#include <span>

namespace tiercast {

// For this thread and those that it starts from now on: nothing that is executed gets more rights
// (PR_SET_NO_NEW_PRIVS), and of the capabilities only `kept` stay (numbers of linux/capability.h).
// Throws std::system_error.
void drop_capabilities(std::span<const int> kept);

}  // namespace tiercast
