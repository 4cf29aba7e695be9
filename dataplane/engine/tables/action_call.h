// Checks an ActionCall of the control plane against a program's actions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/control/status.h"
#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

struct ResolvedCall {
  std::uint32_t index = 0;  // into the list of valid actions
  std::vector<Cell> arguments;
  ActionCall canonical;  // with its arguments in their shortest form
};

// actions: the valid ones, as indices into Image::actions. place: "table x", for messages.
Status resolve_call(const Image& image, const std::string& place,
                    const std::vector<std::uint32_t>& actions, const ActionCall& call,
                    ResolvedCall& out);

}  // namespace tiercast::engine
