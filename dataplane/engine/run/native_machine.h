// Runs native code (native/generate.h) on one packet, in place of flat code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/image/native_abi.h"
#include "dataplane/engine/run/machine.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/packet_state.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

// One pipeline of a switch in native code, and what that needs to call the interpreter.
class NativeMachine {
 public:
  // All arguments must outlive this object. code: made from the image.
  NativeMachine(const NativePipeline& code, const Image& image, Externs& externs, Machine& machine,
                std::span<const std::unique_ptr<MatchTable>> tables, std::uint32_t drop_port);
  NativeMachine(const NativeMachine&) = delete;
  NativeMachine& operator=(const NativeMachine&) = delete;

  const NativePipeline& code() const { return code_; }
  void run(NativePipeline::Part NativePipeline::* part, PacketState& packet) const {
    (code_.*part)(context_, packet);
  }

 private:
  static const NativeMachine& of(const NativeContext& context) {
    return *static_cast<const NativeMachine*>(context.machine);
  }

  const NativePipeline& code_;
  const Image& image_;
  Machine& machine_;
  std::span<const std::unique_ptr<MatchTable>> tables_;
  std::vector<const TableView*> views_;
  std::vector<Cell*> counters_;
  NativeContext context_;
};

}  // namespace tiercast::engine
