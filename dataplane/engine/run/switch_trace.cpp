// What happens to a traced packet in addition to what happens to every packet. All of it is out of
// line, so that an untraced packet costs only one branch at each place.
#include <cstdio>

#include "dataplane/engine/run/run_nodes.h"
#include "dataplane/engine/run/switch_core.h"

namespace tiercast::engine {
namespace {

std::vector<std::string> replica_texts(const std::vector<Replica>& replicas) {
  std::vector<std::string> texts;
  for (const Replica& replica : replicas) {
    texts.push_back("port " + std::to_string(replica.port) + ", instance " +
                    std::to_string(replica.instance));
  }
  return texts;
}

}  // namespace

void SwitchCore::choose_trace(Packet& packet, std::uint32_t port) {
  tracer.choose(packet, port);
  if (packet.trace == 0) return;
  tracer.report(packet, "receive", clock_ns,
                {{"port", std::int64_t{port}}, {"bytes", std::int64_t{packet.buffer->size}}});
}

void SwitchCore::parse_traced(Pipeline& pipeline, const Packet& packet, PacketState& state,
                              std::int64_t now_ns) {
  std::vector<std::string> names;
  const std::vector<std::uint32_t> states = pipeline.machine.parser.run_traced(state);
  if (!tracer.steps()) return;
  for (std::uint32_t index : states) names.push_back(pipeline.image.parser_states[index].name);
  std::vector<std::pair<std::string_view, TraceValue>> fields = {{"states", std::move(names)}};
  if (program->egress_pipeline) {
    const bool in_egress = &pipeline == &*program->egress_pipeline;
    fields.emplace(fields.begin(), "pipeline", std::string(in_egress ? "egress" : "ingress"));
  }
  if (const std::uint32_t error = state.parser_error(); error != 0) {
    fields.emplace_back("error", std::int64_t{error});
  }
  tracer.report(packet, "parse", now_ns, std::move(fields));
}

void SwitchCore::run_traced(Pipeline& pipeline, Packet& packet, PacketState& state, bool in_egress,
                            std::int64_t now_ns) {
  const Image& image = pipeline.image;
  const VerdictCells& verdict = image.verdict;
  Tracer::Run run(tracer, image, packet, in_egress ? "egress" : "ingress", now_ns);
  if (!state.exited) {
    run_nodes(pipeline, in_egress ? image.egress_start : image.ingress_start, state, run);
  }
  const bool to_group = !in_egress && state.phv[verdict.group] != 0;
  const bool drops = verdict.drop != 0 ? state.phv[verdict.drop] != 0
                                       : !state.resubmit && !to_group &&
                                             state.phv[verdict.port] == options.drop_port;
  const Outcome outcome = drops          ? Outcome::kDropped
                          : run.marked() ? Outcome::kMarked
                                         : Outcome::kPassed;
  if (in_egress || outcome != Outcome::kPassed) run.decide(outcome);
  if (state.assertion_failed) {
    run.drop("an assertion failed");
  } else if (drops) {
    run.drop("the program drops it");
  }
}

void SwitchCore::tell_replicate(const Packet& packet, std::uint32_t group,
                                const std::vector<Replica>& replicas) {
  tracer.report(packet, "replicate", clock_ns,
                {{"group", std::int64_t{group}}, {"copies", replica_texts(replicas)}});
}

void SwitchCore::tell_clone(const Packet& original, const Packet& copy, std::uint32_t session,
                            const CloneSession& config) {
  tracer.report(copy, "clone", clock_ns,
                {{"session", std::int64_t{session}},
                 {"of", std::int64_t{original.copy}},
                 {"copies", replica_texts(config.replicas)}});
}

void SwitchCore::enqueue_traced(std::uint32_t port, Packet* packet, std::uint32_t bytes) {
  const std::uint64_t trace = packet->trace;
  const std::uint32_t copy = packet->copy;
  const PortStats& queue = ports->stats(port);
  tracer.report(*packet, "enqueue", clock_ns,
                {{"port", std::int64_t{port}},
                 {"bytes", std::int64_t{bytes}},
                 {"waiting_packets", std::int64_t{queue.queue_packets}},
                 {"waiting_bytes", static_cast<std::int64_t>(queue.queue_bytes)}});
  ports->enqueue(port, packet, bytes, clock_ns);
  tell_average(trace, copy, port);
}

void SwitchCore::tell_average(std::uint64_t trace, std::uint32_t copy, std::uint32_t port) {
  const Red* const red = ports->red(port);
  if (red == nullptr) return;
  char average[32];
  std::snprintf(average, sizeof average, "%.9g", red->average());
  tracer.report(trace, copy, "red", clock_ns,
                {{"port", std::int64_t{port}}, {"average", std::string(average)}});
}

void SwitchCore::tell_lost(const Packet& packet, std::uint32_t port, TrafficManager::Loss why) {
  using enum TrafficManager::Loss;
  if (why == kQueueFull || why == kEarly) tell_average(packet.trace, packet.copy, port);
  const PortStats& queue = ports->stats(port);
  const std::string name = "port " + std::to_string(port);
  switch (why) {
    case kQueueFull:
      return tell_drop(packet, "queue",
                       "the queue of " + name + " is full: " + std::to_string(queue.queue_packets) +
                           " packets, " + std::to_string(queue.queue_bytes) + " bytes");
    case kEarly:
      return tell_drop(packet, "queue",
                       "RED on arrival at " + name + ", with " +
                           std::to_string(queue.queue_packets) + " packets waiting");
    case kDown: return tell_drop(packet, "link", "the link of " + name + " is down");
    case kOnWire: return tell_drop(packet, "link", "lost on the wire from " + name);
    case kOnArrivingWire: return tell_drop(packet, "link", "lost on the wire to " + name);
  }
}

void SwitchCore::tell_marked(const Packet& packet, std::uint32_t port, std::int64_t now_ns) {
  tracer.report(packet, "mark", now_ns,
                {{"port", std::int64_t{port}}, {"by", std::string("RED on arrival")}});
}

void SwitchCore::tell_dequeue(const Packet& packet, std::uint32_t port, std::uint32_t waiting,
                              std::int64_t now_ns) {
  tracer.report(packet, "dequeue", now_ns,
                {{"port", std::int64_t{port}},
                 {"enq_qdepth", std::int64_t{packet.enq_qdepth}},
                 {"deq_qdepth", std::int64_t{waiting}},
                 {"waited_ns", now_ns - packet.time_ns}});
}

void SwitchCore::tell_leaves(const Packet& packet, std::uint32_t port) {
  const std::int64_t bytes = packet.buffer->size;
  if (port == options.cpu_port) {
    tracer.report(packet, "packet_in", packet.time_ns, {{"bytes", bytes}});
  } else {
    tracer.report(packet, "transmit", packet.time_ns,
                  {{"port", std::int64_t{port}}, {"bytes", bytes}});
  }
}

void SwitchCore::tell_drop(const Packet& packet, std::string_view where, std::string_view reason) {
  tracer.report(packet, "drop", clock_ns,
                {{"where", std::string(where)}, {"reason", std::string(reason)}});
}

}  // namespace tiercast::engine
