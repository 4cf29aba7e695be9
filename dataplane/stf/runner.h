// Runs a script on the engine in virtual time, and says whether the program behaved as expected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/image/native_abi.h"
#include "dataplane/stf/script.h"

namespace tiercast::stf {

struct Verdict {
  bool passed = false;
  std::string reason;  // why it failed: the script's line, what was expected and what happened
};

// Packets on ports that the script does not name are ignored. The packets of a port are compared in
// the order in which they leave; the order between ports does not matter (as in p4c's runner).
// native: the program's native code, or null: the interpreter.
Verdict run_script(std::shared_ptr<const engine::Program> program,
                   const std::vector<Command>& script,
                   std::shared_ptr<const engine::NativeProgram> native = nullptr);

}  // namespace tiercast::stf
