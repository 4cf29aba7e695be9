#include "dataplane/engine/run/flat_machine.h"

#include <algorithm>

#include "dataplane/engine/packet/bits.h"

namespace tiercast::engine {

void FlatMachine::parse(PacketState& packet, std::span<const std::unique_ptr<MatchTable>> tables) {
  parser_.begin(packet);
  run(image_.flat.parser, packet, tables);
}

// Each operation ends with its own jump to the next one's address ("labels as values", GCC and
// Clang). A processor predicts sixty such jumps far better than the single jump of a switch
// statement.
void FlatMachine::run(std::uint32_t start, PacketState& packet,
                      std::span<const std::unique_ptr<MatchTable>> tables) {
  const FlatInstruction* const code = image_.flat.code.data();
  const FlatInstruction* next = code + start;
  Cell* const phv = packet.phv;
  const Cell* arguments = nullptr;  // of the last table's action
  bool hit = false;
  const FlatInstruction* at = nullptr;
  const auto x = [&] { return phv[at->x]; };
  const auto y = [&] { return phv[at->y]; };
  const auto set = [&](Cell value) { phv[at->d] = value & at->mask; };
  const auto jump_if = [&](bool jump) {
    if (jump) next = code + at->target;
  };
#define TIERCAST_ADDRESS(name) &&name,
  static const void* const kAddresses[] = {TIERCAST_FLAT_OPS(TIERCAST_ADDRESS)};
#undef TIERCAST_ADDRESS
#define TIERCAST_NEXT \
  at = next++;        \
  goto* kAddresses[static_cast<std::size_t>(at->op)]

  TIERCAST_NEXT;
Set:
  phv[at->d] = at->i;
  TIERCAST_NEXT;
Move:
  set(x());
  TIERCAST_NEXT;
Not:
  set(~x());
  TIERCAST_NEXT;
Add:
  set(x() + y());
  TIERCAST_NEXT;
AddI:
  set(x() + at->i);
  TIERCAST_NEXT;
Subtract:
  set(x() - y());
  TIERCAST_NEXT;
SubtractI:
  set(x() - at->i);
  TIERCAST_NEXT;
Multiply:
  set(x() * y());
  TIERCAST_NEXT;
MultiplyI:
  set(x() * at->i);
  TIERCAST_NEXT;
And:
  set(x() & y());
  TIERCAST_NEXT;
AndI:
  set(x() & at->i);
  TIERCAST_NEXT;
Or:
  set(x() | y());
  TIERCAST_NEXT;
OrI:
  set(x() | at->i);
  TIERCAST_NEXT;
Xor:
  set(x() ^ y());
  TIERCAST_NEXT;
XorI:
  set(x() ^ at->i);
  TIERCAST_NEXT;
ShiftLeft:
  set(y() < kCellBits ? x() << y() : 0);
  TIERCAST_NEXT;
ShiftLeftI:
  set(x() << at->i);
  TIERCAST_NEXT;
ShiftRight:
  set(y() < kCellBits ? x() >> y() : 0);
  TIERCAST_NEXT;
ShiftRightI:
  set(x() >> at->i);
  TIERCAST_NEXT;
SubtractToZero:
  set(x() > y() ? x() - y() : 0);
  TIERCAST_NEXT;
MinimumI:
  set(std::min(x(), at->i));
  TIERCAST_NEXT;

Equal:
  set(x() == y());
  TIERCAST_NEXT;
EqualI:
  set(x() == at->i);
  TIERCAST_NEXT;
NotEqual:
  set(x() != y());
  TIERCAST_NEXT;
NotEqualI:
  set(x() != at->i);
  TIERCAST_NEXT;
Less:
  set(x() < y());
  TIERCAST_NEXT;
LessI:
  set(x() < at->i);
  TIERCAST_NEXT;
GreaterEqual:
  set(x() >= y());
  TIERCAST_NEXT;
GreaterEqualI:
  set(x() >= at->i);
  TIERCAST_NEXT;
Greater:
  set(x() > y());
  TIERCAST_NEXT;
GreaterI:
  set(x() > at->i);
  TIERCAST_NEXT;
LessEqual:
  set(x() <= y());
  TIERCAST_NEXT;
LessEqualI:
  set(x() <= at->i);
  TIERCAST_NEXT;

JumpEqual:
  jump_if(x() == y());
  TIERCAST_NEXT;
JumpEqualI:
  jump_if(x() == at->i);
  TIERCAST_NEXT;
JumpNotEqual:
  jump_if(x() != y());
  TIERCAST_NEXT;
JumpNotEqualI:
  jump_if(x() != at->i);
  TIERCAST_NEXT;
JumpLess:
  jump_if(x() < y());
  TIERCAST_NEXT;
JumpLessI:
  jump_if(x() < at->i);
  TIERCAST_NEXT;
JumpGreaterEqual:
  jump_if(x() >= y());
  TIERCAST_NEXT;
JumpGreaterEqualI:
  jump_if(x() >= at->i);
  TIERCAST_NEXT;
JumpGreater:
  jump_if(x() > y());
  TIERCAST_NEXT;
JumpGreaterI:
  jump_if(x() > at->i);
  TIERCAST_NEXT;
JumpLessEqual:
  jump_if(x() <= y());
  TIERCAST_NEXT;
JumpLessEqualI:
  jump_if(x() <= at->i);
  TIERCAST_NEXT;
Jump:
  next = code + at->target;
  TIERCAST_NEXT;
JumpHit:
  jump_if(hit);
  TIERCAST_NEXT;
End:
  return;
Exit:
  packet.exited = true;
  return;

Argument:
  set(arguments[at->i]);
  TIERCAST_NEXT;
Table: {
  MatchTable::Outcome outcome = tables[at->i]->apply(phv, packet.received_length);
  if (outcome.special != nullptr) {
    hits_.complete(image_.tables[at->i], *tables[at->i], packet, outcome);
  }
  hit = outcome.hit;
  arguments = outcome.arguments;
  const std::uint32_t count = static_cast<std::uint32_t>(image_.tables[at->i].actions.size());
  next = code + image_.flat.targets[at->target + std::min(outcome.action, count)];
  TIERCAST_NEXT;
}
RegisterRead: {
  const Externs::Registers& array = externs_.registers[at->i];
  set(x() < array.size ? array[x()] : 0);
  TIERCAST_NEXT;
}
RegisterWrite: {
  const Externs::Registers& array = externs_.registers[at->i];
  if (x() < array.size) array[x()] = y() & at->mask;
  TIERCAST_NEXT;
}
Count: {
  const std::span<CounterValue> counter = externs_.counters[at->i];
  if (x() < counter.size()) {
    ++counter[x()].packets;
    counter[x()].bytes += packet.received_length;
  }
  TIERCAST_NEXT;
}
MarkToDrop:
  phv[image_.verdict.port] = drop_port_;
  phv[image_.verdict.group] = 0;
  TIERCAST_NEXT;
Call:
  interpreter_.run({static_cast<std::uint32_t>(at->i), at->target}, packet, arguments);
  if (packet.exited || packet.error != 0) return;
  TIERCAST_NEXT;
CallCondition:
  phv[at->d] = interpreter_.run({static_cast<std::uint32_t>(at->i), at->target}, packet);
  TIERCAST_NEXT;
VerifyChecksum:
  checksums_.verify(image_.checksums[at->i], packet);
  TIERCAST_NEXT;
UpdateChecksum:
  checksums_.update(image_.checksums[at->i], packet);
  TIERCAST_NEXT;
Clear:
  std::fill_n(phv + at->d, at->i, Cell{0});
  TIERCAST_NEXT;
Copy:
  std::copy_n(phv + at->x, at->i, phv + at->d);
  TIERCAST_NEXT;

Extract: {
  const HeaderPlan& plan = image_.header_plans[at->i];
  if (!headers_.extract_plain(packet, plan, plan.flat_read)) return;
  TIERCAST_NEXT;
}
Lookahead: {
  const std::size_t bit = packet.cursor * 8 + at->i;
  if (bit + at->target > packet.size * 8) {
    packet.error = image_.error_packet_too_short;
    return;
  }
  phv[at->d] = read_bits(packet.data, bit, at->target);
  TIERCAST_NEXT;
}
NextState:
  if (packet.states_left-- == 0) {
    packet.error = image_.error_parser_invalid_argument;
    return;
  }
  TIERCAST_NEXT;
RunState: {
  std::uint32_t state = 0;
  if (!parser_.run_state(image_.parser_states[at->i], packet, state)) return;
  const auto accept = static_cast<std::uint32_t>(image_.parser_states.size());
  next = code + image_.flat.targets[at->target + std::min(state, accept)];
  TIERCAST_NEXT;
}
Reject:
  packet.error = static_cast<std::uint32_t>(at->i);
  return;
#undef TIERCAST_NEXT
}

}  // namespace tiercast::engine
