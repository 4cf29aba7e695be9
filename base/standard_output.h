// The last thing that a program does: what it wrote to standard output must be there.
#pragma once

namespace tiercast {

// Writes out what standard output still holds. Returns `status`, with which the program would end.
// If not all could be written, now or before, it says so on standard error, after `program`, and
// returns 1 instead of 0: a part of a result looks like all of it.
int end_output(const char* program, int status);

}  // namespace tiercast
