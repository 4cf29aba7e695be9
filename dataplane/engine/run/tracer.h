// Makes the events of trace.h for the packet being processed.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/engine/control/trace.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/run/decision.h"
#include "dataplane/engine/run/machine.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

class Tracer {
 public:
  // Null switches tracing off. Packets inside keep their numbers but are no longer reported.
  void set_sink(TraceSink* sink) { sink_ = sink; }
  bool on() const { return sink_ != nullptr; }
  bool steps() const { return sink_ != nullptr && sink_->wants_steps(); }
  // To be called before the program goes, and with it all packets inside.
  void end_program(std::int64_t time_ns) {
    plans_.clear();
    report(0, 0, "program", time_ns, {});
  }

  // Gives the packet a number if the sink wants it.
  void choose(Packet& packet, std::uint32_t port);
  // Makes `copy` a traced copy of a traced packet.
  void number_copy(const Packet& original, Packet& copy);
  // Sends an event about a packet.
  void report(const Packet& packet, std::string_view kind, std::int64_t time_ns,
              std::vector<std::pair<std::string_view, TraceValue>> fields = {}) {
    report(packet.trace, packet.copy, kind, time_ns, std::move(fields));
  }
  // The same, of a packet that may be gone.
  void report(std::uint64_t trace, std::uint32_t copy, std::string_view kind, std::int64_t time_ns,
              std::vector<std::pair<std::string_view, TraceValue>> fields);

  // The observer that the interpreter calls while it runs one pipeline for one packet.
  class Run {
   public:
    Run(Tracer& tracer, const Image& image, const Packet& packet, const char* pipeline,
        std::int64_t time_ns);
    // Runs a condition.
    bool branch(Machine& machine, const Image& image, std::uint32_t node, PacketState& state);
    void table(const Image& image, std::uint32_t node, MatchTable& table, const PacketState& state,
               const MatchTable::Outcome& outcome, const MatchTable::Entry* entry);
    // Runs an action's code statement by statement.
    void run(Machine& machine, const Image& image, std::uint32_t node, const Action& action,
             PacketState& state, const Cell* arguments);
    static const MatchTable::Entry* lookup(MatchTable& table, const PacketState& state) {
      return table.lookup(state.phv);
    }
    bool marked() const { return decision_.marked(); }
    void decide(Outcome outcome);
    // Names the step that last sent the packet to the drop port.
    void drop(std::string_view reason);

   private:
    void step(const Image& image, const Action& action, const Statement& statement,
              const std::vector<Cell>& before, const Cell* after, bool marks);
    Tracer& tracer_;
    const Packet& packet_;
    const char* pipeline_;
    std::int64_t time_ns_;
    std::string dropped_by_, dropped_at_;
    const DecisionPlan& plan_;
    Decision decision_;
  };

 private:
  const DecisionPlan& plan(const Image& image);
  TraceSink* sink_ = nullptr;
  std::vector<std::unique_ptr<DecisionPlan>> plans_;  // of the images that traced packets ran
  std::uint64_t packets_ = 0;
  std::uint32_t copies_ = 0;  // counts the copies of all traced packets, so that no number is used
                              // twice
};

}  // namespace tiercast::engine
