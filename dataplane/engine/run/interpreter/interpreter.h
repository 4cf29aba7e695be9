// Executes the image's stack code on one packet: actions, conditions, parser operations.
#pragma once

#include <cstdint>

#include "dataplane/engine/control/output.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/calculations.h"
#include "dataplane/engine/run/interpreter/effects.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/headers.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

class Interpreter {
 public:
  // All arguments must outlive this object. drop_port: where mark_to_drop() sends a packet.
  Interpreter(const Image& image, Externs& externs, const Headers& headers,
              Calculations& calculations, Output& output, std::uint32_t drop_port)
      : image_(image),
        externs_(externs),
        headers_(headers),
        calculations_(calculations),
        output_(output),
        drop_port_(drop_port) {}

  // Runs the code of an action or condition. Returns whether the value left on the stack is not 0.
  bool run(CodeRange code, PacketState& packet, const Cell* arguments = nullptr);
  // The low 64 bits of the value that the code leaves on the stack.
  Cell value(CodeRange code, PacketState& packet);
  // Runs a part of an action's code, from its beginning to the end of a statement. Returns where
  // execution continues, which may be anywhere in the action.
  std::uint32_t run_part(CodeRange code, PacketState& packet, const Cell* arguments);
  // The same, and what the code did is added to `effects`.
  bool run(CodeRange code, PacketState& packet, const Cell* arguments, Effects& effects);
  std::uint32_t run_part(CodeRange code, PacketState& packet, const Cell* arguments,
                         Effects& effects);

 private:
  // kObserved: effects_ is set.
  template <class Value, bool kObserved>
  Word execute(std::uint32_t pc, std::uint32_t end, PacketState& packet, const Cell* arguments);
  template <class Value>
  void observe(const Instruction& instruction, const Cell* phv, const Value* top);
  template <class Value>
  void log_message(const LogFormat& format, const Value* arguments);

  const Image& image_;
  Externs& externs_;
  const Headers& headers_;
  Calculations& calculations_;
  Output& output_;
  std::uint32_t drop_port_;
  Effects* effects_ = nullptr;
};

}  // namespace tiercast::engine
