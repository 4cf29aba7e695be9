// Runs a script on the engine, in virtual time, and says whether the program did what it expects.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "dataplane/stf/script.h"

namespace tiercast::stf {

struct Verdict {
  bool passed = false;
  std::string reason;  // why it failed: the script's line, what was expected, what came
};

// Packets on ports that the script does not name are ignored. A port's packets are compared in the
// order in which they leave; the order between ports does not matter (as p4c's runner has it).
Verdict run_script(std::shared_ptr<const engine::Program> program,
                   const std::vector<Command>& script);

}  // namespace tiercast::stf
