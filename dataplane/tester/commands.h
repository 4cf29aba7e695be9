// What a tester is asked, and what it answers: a line of JSON each (README.md).
#pragma once

#include <string>

#include "dataplane/tester/trial.h"

namespace tiercast::tester {

// Carries out one command. The answer is one line, without a newline: {"error": "..."} if the
// command is wrong.
std::string answer(Tester& tester, const std::string& command);

}  // namespace tiercast::tester
