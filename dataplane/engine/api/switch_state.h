// The state of a Switch.
#pragma once

#include <memory>
#include <utility>

#include "dataplane/engine/api/switch.h"
#include "dataplane/engine/run/switch_core.h"

namespace tiercast::engine {

struct Switch::State {
  State(std::shared_ptr<const Program> loaded, Options options, Output& output)
      : program(std::move(loaded)), core(image_of(program), std::move(options), output) {}

  static std::shared_ptr<const Image> image_of(const std::shared_ptr<const Program>& program) {
    return {program, &program->image()};
  }

  std::shared_ptr<const Program> program;
  SwitchCore core;
};

}  // namespace tiercast::engine
