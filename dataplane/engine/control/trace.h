// A trace says, for chosen packets, what happened to them and why. docs/switch.md shows one.
//
// A traced packet runs in the form in which the program was compiled, and reports every step; other
// packets run as they do without a trace. Values are hexadecimal ("0x0a000202"). Places in the P4
// source are "file.p4:line".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tiercast::engine {

using TraceMap = std::vector<std::pair<std::string, std::string>>;
using TraceValue =
    std::variant<bool, std::int64_t, std::string, std::vector<std::string>, TraceMap>;

// kind       fields
// receive    port, bytes
// parse      states, and error (its number in the program) if parsing failed
// branch     pipeline, source, condition (as P4 text), taken
// table      pipeline, table, source, key, hit, entry (match, priority, member, group: as they are
//            set), action, data
// step       pipeline, action, source, text (as P4 text), changes (field: "old -> new"), and
//            mark: true if it sets a field named ecn to 3 (RFC 3168: congestion experienced)
// decision   pipeline, outcome (marked, dropped, passed), by (action), source, lines (of the
// program,
//            that decided it: run/decision.h), registers (the last value that each array gave or
//            got); of egress, and of an ingress that marks or drops
// clone      session, of (a copy's number), copies (port and instance of each)
// replicate  group, copies       the last one keeps its number
// resubmit, recirculate
// enqueue    port, bytes, waiting_packets, waiting_bytes    what waits there already
// dequeue    port, enq_qdepth, deq_qdepth (packets), waited_ns
// transmit   port, bytes     the last bit leaves the wire
// packet_in  bytes           to the controller
// red        port, average (packets)   RED on arrival, at the packet's arrival
// drop       where (ingress, queue, egress, link), reason, and by (action), source if the program
// did
//            it
// program    of packet 0: another program is set, and all packets inside are gone
struct TraceEvent {
  std::string_view kind;
  std::int64_t time_ns = 0;  // ideal time, as everywhere in the engine
  std::uint64_t packet = 0;  // counts traced packets from 1
  std::uint32_t copy = 0;    // 0: the received packet itself
  std::vector<std::pair<std::string_view, TraceValue>> fields;
};

// Called synchronously from Switch::receive() and advance(). An implementation must not call back
// into the Switch.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // Whether to trace this frame; asked once for each frame received.
  virtual bool wants(std::uint32_t port, std::span<const std::byte> frame) = 0;
  virtual void event(const TraceEvent& event) = 0;
  // Whether to report what the program does step by step: parse, branch, table, step.
  virtual bool wants_steps() const { return true; }
};

// One JSON object on one line, without the newline: kind, time_ns, packet, copy, then the fields.
std::string to_json(const TraceEvent& event);

}  // namespace tiercast::engine
