// The parser in the form of the image: states with their operations and selects.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/interpreter.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

class Parser {
 public:
  // All arguments must outlive this object.
  Parser(const Image& image, const Externs& externs, Interpreter& interpreter)
      : image_(image), externs_(externs), interpreter_(interpreter) {}

  // Parses packet.frame from its start into packet.phv. A parser error ends parsing; headers
  // extracted before stay valid.
  void run(PacketState& packet);
  // The same. Returns the states that it passes.
  std::vector<std::uint32_t> run_traced(PacketState& packet);

  // --- For flat code, which calls the states that are not flat ---
  void begin(PacketState& packet) const;
  // Runs one state. False if parsing ends with an error. next: the state that follows.
  bool run_state(const ParserState& state, PacketState& packet, std::uint32_t& next);

 private:
  template <class Visitor>
  void run_states(PacketState& packet, Visitor visit);
  bool in_value_set(std::uint32_t value_set, const Cell* key) const;

  const Image& image_;
  const Externs& externs_;
  Interpreter& interpreter_;
};

}  // namespace tiercast::engine
