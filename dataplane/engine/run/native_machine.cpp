#include "dataplane/engine/run/native_machine.h"

namespace tiercast::engine {

namespace {

// Native code knows its packets as the first part of a PacketState, which all of them are.
PacketState& state_of(NativePacket& packet) { return static_cast<PacketState&>(packet); }

}  // namespace

NativeMachine::NativeMachine(const NativePipeline& code, const Image& image, Externs& externs,
                             Machine& machine, std::span<const std::unique_ptr<MatchTable>> tables,
                             std::uint32_t drop_port)
    : code_(code), image_(image), machine_(machine), tables_(tables) {
  for (const auto& table : tables) views_.push_back(&table->view());
  static_assert(sizeof(CounterValue) == 2 * sizeof(Cell));
  for (const auto array : externs.counters) {
    counters_.push_back(array.empty() ? nullptr : &array.data()->packets);
  }
  context_.tables = views_.data();
  context_.registers = externs.register_cells.data();
  context_.counters = counters_.data();
  context_.drop_port = drop_port;
  context_.machine = this;
  context_.table = [](const NativeContext& c, NativePacket& packet, std::uint32_t index,
                      TableOutcome& out) {
    const NativeMachine& self = of(c);
    MatchTable& table = *self.tables_[index];
    MatchTable::Outcome outcome = table.apply(packet.phv, packet.received_length);
    if (outcome.special != nullptr) {
      self.machine_.hits.complete(self.image_.tables[index], table, state_of(packet), outcome);
    }
    out = {outcome.action, outcome.hit, outcome.arguments};
  };
  context_.call = [](const NativeContext& c, NativePacket& packet, std::uint32_t begin,
                     std::uint32_t end, const Cell* arguments) {
    of(c).machine_.interpreter.run({begin, end}, state_of(packet), arguments);
  };
  context_.condition = [](const NativeContext& c, NativePacket& packet, std::uint32_t begin,
                          std::uint32_t end) {
    return Cell{of(c).machine_.interpreter.run({begin, end}, state_of(packet))};
  };
  context_.run_state = [](const NativeContext& c, NativePacket& packet, std::uint32_t state,
                          std::uint32_t& next) {
    const NativeMachine& self = of(c);
    return self.machine_.parser.run_state(self.image_.parser_states[state], state_of(packet), next);
  };
  context_.verify = [](const NativeContext& c, NativePacket& packet, std::uint32_t checksum) {
    const NativeMachine& self = of(c);
    self.machine_.checksums.verify(self.image_.checksums[checksum], state_of(packet));
  };
  context_.update = [](const NativeContext& c, NativePacket& packet, std::uint32_t checksum) {
    const NativeMachine& self = of(c);
    self.machine_.checksums.update(self.image_.checksums[checksum], state_of(packet));
  };
}

}  // namespace tiercast::engine
