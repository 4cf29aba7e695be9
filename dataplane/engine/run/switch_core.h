// The parts of a Switch that do not depend on the architecture: ports and the packets between them,
// the program's state, time, traces. A PacketPath (arch/architecture.h) calls the functions in the
// lower half.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/arch/metadata.h"
#include "dataplane/engine/control/output.h"
#include "dataplane/engine/control/switch_options.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/traffic_manager.h"
#include "dataplane/engine/run/digest_list.h"
#include "dataplane/engine/run/machine.h"
#include "dataplane/engine/run/native_machine.h"
#include "dataplane/engine/run/tracer.h"
#include "dataplane/engine/tables/match_table.h"
#include "dataplane/engine/tables/profile_members.h"

namespace tiercast::engine {

// An image and what runs it.
struct Pipeline {
  // All arguments must outlive this object.
  Pipeline(const Image& of, Externs& externs, const SwitchCore& core);
  const Image& image;
  Machine machine;
  std::optional<NativeMachine> native;  // runs instead of machine.flat
};

// A program and its state, which Switch::set_program() replaces.
struct ProgramState {
  // ports_down and core must outlive this object.
  ProgramState(std::shared_ptr<const Image> image, const PortSet& ports_down, SwitchCore& core);
  // Runs `code`, which was made from the image, instead of flat code; null: flat code again. Does
  // nothing if packets do not run as flat code.
  void run_native(std::shared_ptr<const NativeProgram> code, std::uint32_t drop_port);
  MatchTable* table(std::string_view name);
  void find_label(const LabelRule& rule);
  void find_depth_register(std::string_view name);

  std::shared_ptr<const Image> owned_image;
  const Image& image;
  Externs externs;
  Pipeline pipeline;                            // all of the program, or ingress alone
  std::optional<Pipeline> egress_pipeline;      // of an architecture that parses twice
  std::shared_ptr<const NativeProgram> native;  // what the pipelines run; null: flat code
  bool flat;                                    // whether packets run as flat code, or native code
  std::shared_ptr<PacketPool> owned_pool;
  PacketPool& pool;
  std::vector<std::unique_ptr<ProfileMembers>> profiles;
  std::vector<std::unique_ptr<MatchTable>> tables;
  std::vector<DigestGatherer> digests;
  std::unordered_map<std::uint32_t, std::vector<Replica>> groups;
  std::unordered_map<std::uint32_t, CloneSession> sessions;
  std::uint32_t label_valid_cell = kNone;  // of LabelRule's header; kNone: all labels are 0
  std::uint32_t label_cell = kNone;        // of the label's field
  std::uint32_t label_header = kNone;      // index into Image::headers
  std::uint32_t label_bit = 0;             // the field's place in the header
  std::uint32_t label_width = 0;           // bits
  std::uint32_t depth_register = kNone;    // index of SwitchOptions::depth_register
  std::unique_ptr<PacketPath> path;
};

class SwitchCore {
 public:
  static constexpr std::int64_t kNever = TrafficManager::kNever;
  static constexpr std::uint32_t kMaxGeneration = 16;

  // Throws std::invalid_argument if the CPU port is above 511.
  SwitchCore(std::shared_ptr<const Image> image, SwitchOptions options, Output& output);

  // --- For Switch ---
  void set_program(std::shared_ptr<const Image> image);
  void run_native(std::shared_ptr<const NativeProgram> code);
  void receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns);
  void receive(std::uint32_t port, const LentFrame& frame, std::int64_t now_ns);
  void advance(std::int64_t now_ns);
  std::int64_t next_event() const { return std::min(ports->next_event(), next_timer()); }
  SwitchStats all_stats() const;

  // --- For a PacketPath ---
  // Whether the packet runs as flat code. A traced one runs node by node.
  bool runs_flat(const Packet& packet) const { return program->flat && packet.trace == 0; }
  // Sets the packet's length, and resets its state and packet vector to those of an unprocessed
  // frame.
  void begin(const Pipeline& pipeline, Packet& packet, PacketState& state) const;
  // Runs the parser. The packet's cursor is then after the bytes that it consumed.
  void parse(Pipeline& pipeline, Packet& packet, PacketState& state, std::int64_t now_ns);
  // The same for a copy. Its parser is not traced, and no control follows.
  void parse_copy(Pipeline& pipeline, Packet& packet, PacketState& state);
  void verify_checksums(Pipeline& pipeline, const Packet& packet, PacketState& state);
  void run_ingress(Pipeline& pipeline, Packet& packet, PacketState& state);
  void run_egress(Pipeline& pipeline, Packet& packet, PacketState& state, std::int64_t now_ns);
  void update_checksums(Pipeline& pipeline, const Packet& packet, PacketState& state);
  // Runs the deparser and makes packet.buffer the frame to send. False if the frame is too long;
  // this is counted.
  bool deparse(Pipeline& pipeline, Packet& packet, PacketState& state);
  // Gathers the digest that the program asked for.
  void gather_digest(const PacketState& state) {
    if (state.digest != kNone) gather(state);
  }
  // Counts a failed assertion. Returns whether there was one.
  bool assertion_failed(const PacketState& state) {
    if (state.assertion_failed) ++stats.assertion_failed_packets;
    return state.assertion_failed;
  }

  // A copy that shares the frame and copies the packet vector and position.
  Packet* copy(const Packet& packet);
  // A new packet with the same frame, to be parsed again.
  Packet* copy_frame(const Packet& packet);
  void copy_phv(const Packet& from, Packet& to) const;
  // Puts a packet whose frame is complete, and takes ownership of it, into a port's queue.
  void enqueue(std::uint32_t port, Packet* packet, std::uint32_t bytes);
  // Writes a port's queue length to SwitchOptions::depth_register. To be called when it has
  // changed.
  void mirror_depth(std::uint32_t port) {
    if (program->depth_register != kNone && port < kPortNumbers) write_depth(port);
  }
  // The label of a packet that has just been deparsed.
  std::uint32_t label_of_frame(const Pipeline& pipeline, const Packet& packet) const;

  // For an architecture that parses once: the queues hold parsed packets.
  // Sends the packet, and takes ownership of it, to each replica. `instance` is where the packet
  // vector has the replica's instance.
  void replicate(Packet* packet, const std::vector<Replica>& replicas,
                 const MetadataField& instance);
  // Puts the packet, and takes ownership of it, into a port's queue, with the label from its
  // header.
  void send(std::uint32_t port, Packet* packet);
  // Takes ownership of the packet, and passes it to PacketPath::again() before anything else
  // happens.
  void run_again(Packet* packet) { again_.push(packet); }
  // Whether the packet may go round once more. If not, this is counted.
  bool next_generation(Packet& packet);
  // A frame leaves a port's wire.
  void deliver(std::uint32_t port, const Packet& packet);
  // Ends a packet. If it is traced, the trace says so.
  void drop(Packet* packet, const char* where, const char* reason);

  // Traces (switch_trace.cpp). Only for a traced packet.
  [[gnu::cold]] void report(const Packet& packet, std::string_view kind) {
    tracer.report(packet, kind, clock_ns);
  }
  [[gnu::cold]] void tell_lost(const Packet& packet, std::uint32_t port, TrafficManager::Loss why);
  [[gnu::cold]] void tell_marked(const Packet& packet, std::uint32_t port, std::int64_t now_ns);
  [[gnu::cold]] void tell_replicate(const Packet& packet, std::uint32_t group,
                                    const std::vector<Replica>& replicas);
  [[gnu::cold]] void tell_clone(const Packet& original, const Packet& copy, std::uint32_t session,
                                const CloneSession& config);
  [[gnu::cold]] void tell_dequeue(const Packet& packet, std::uint32_t port, std::uint32_t waiting,
                                  std::int64_t now_ns);

  const SwitchOptions options;
  Output& output;
  PortSet ports_down;
  std::unique_ptr<ProgramState> program;
  std::unique_ptr<TrafficManager> ports;
  Tracer tracer;
  std::int64_t clock_ns = 0;
  SwitchStats stats;

 private:
  // Runs a part as native code if there is any, otherwise the same as flat code.
  void run_flat(Pipeline& pipeline, NativePipeline::Part NativePipeline::* native,
                std::uint32_t flat, PacketState& state) {
    if (pipeline.native) return pipeline.native->run(native, state);
    pipeline.machine.flat.run(flat, state, program->tables);
  }
  // Runs the nodes from `node` on. The observer sees each of them and runs the actions.
  template <class Observer>
  void run_nodes(Pipeline& pipeline, std::uint32_t node, PacketState& state, Observer& observer);
  // Counts a frame that arrives; false if it cannot come in.
  bool admits(std::uint32_t port, std::size_t bytes);
  // A packet that has arrived, with its frame.
  void enter(std::uint32_t port, Packet* packet);
  void transmit_lent(std::uint32_t port, FrameBuffer& buffer, std::int64_t due_ns);
  void write_depth(std::uint32_t port);
  void interpret(Pipeline& pipeline, std::uint32_t node, PacketState& state);
  void gather(const PacketState& state);
  std::int64_t next_timer() const { return has_timers_ ? next_due_timer() : kNever; }
  std::int64_t next_due_timer() const;
  void fire_timers();
  void find_timers();
  // Writes changed headers to the frame before the frame is shared, so that copies that egress does
  // not change need no frame of their own.
  void rewrite_once(Packet& packet);
  std::uint32_t label_of(const Packet& packet) const;
  std::uint32_t label_as_received(const Packet& packet) const;
  // The size that the frame would have if it left now.
  std::uint32_t bytes_to_queue(const Packet& packet) const;

  [[gnu::cold]] void choose_trace(Packet& packet, std::uint32_t port);
  [[gnu::cold]] void parse_traced(Pipeline& pipeline, const Packet& packet, PacketState& state,
                                  std::int64_t now_ns);
  [[gnu::cold]] void run_traced(Pipeline& pipeline, Packet& packet, PacketState& state,
                                bool in_egress, std::int64_t now_ns);
  [[gnu::cold]] void enqueue_traced(std::uint32_t port, Packet* packet, std::uint32_t bytes);
  // Of RED on arrival, after the packet's arrival.
  [[gnu::cold]] void tell_average(std::uint64_t trace, std::uint32_t copy, std::uint32_t port);
  [[gnu::cold]] void tell_leaves(const Packet& packet, std::uint32_t port);
  [[gnu::cold]] void tell_drop(const Packet& packet, std::string_view where,
                               std::string_view reason);

  PacketList again_;
  bool has_timers_ = false;  // the program has digests, or tables with time-outs
};

// Inline because every packet passes here: the compiler can then merge these functions with a path
// into one.

inline void SwitchCore::begin(const Pipeline& pipeline, Packet& packet, PacketState& state) const {
  packet.received_length = packet.buffer->size;
  std::construct_at(&state);  // in place: an assignment clears a copy first
  program->pool.lend_vector(packet);
  state.phv = packet.phv;
  state.set_frame(packet.buffer->frame());
  state.received_length = packet.received_length;
  if (!runs_flat(packet)) {
    std::fill_n(packet.phv, program->pool.phv_cells(), 0);
  } else if (pipeline.native) {
    pipeline.native->code().clear(state.phv);
  } else {
    for (const CellRun& run : pipeline.image.initial_runs) {
      std::fill_n(state.phv + run.first, run.count, 0);
    }
  }
}

inline void SwitchCore::parse_copy(Pipeline& pipeline, Packet& packet, PacketState& state) {
  if (!runs_flat(packet)) {
    pipeline.machine.parser.run(state);
  } else if (pipeline.native) {
    pipeline.native->run(&NativePipeline::parse, state);
  } else {
    pipeline.machine.flat.parse(state, program->tables);
  }
  packet.cursor = static_cast<std::uint32_t>(state.cursor);
}

inline void SwitchCore::parse(Pipeline& pipeline, Packet& packet, PacketState& state,
                              std::int64_t now_ns) {
  const Image& image = pipeline.image;
  const bool flat = runs_flat(packet);
  program->externs.now_ns = now_ns;
  if (packet.trace == 0) {
    parse_copy(pipeline, packet, state);
  } else {
    parse_traced(pipeline, packet, state, now_ns);
    packet.cursor = static_cast<std::uint32_t>(state.cursor);
  }
  state.phv[image.tracked_cell] = flat ? 1 : 0;
  for (std::uint32_t dirty : image.always_dirty) state.phv[dirty] = 1;
}

inline void SwitchCore::verify_checksums(Pipeline& pipeline, const Packet& packet,
                                         PacketState& state) {
  if (runs_flat(packet)) {
    run_flat(pipeline, &NativePipeline::verify, pipeline.image.flat.verify_checksums, state);
  } else {
    pipeline.machine.checksums.verify_all(state);
  }
}

inline void SwitchCore::update_checksums(Pipeline& pipeline, const Packet& packet,
                                         PacketState& state) {
  const FlatCode& flat = pipeline.image.flat;
  if (!runs_flat(packet)) {
    pipeline.machine.checksums.update_all(state);
  } else if (!flat.is_empty(flat.update_checksums)) {
    run_flat(pipeline, &NativePipeline::update, flat.update_checksums, state);
  }
}

inline void SwitchCore::run_ingress(Pipeline& pipeline, Packet& packet, PacketState& state) {
  if (packet.trace != 0) {
    run_traced(pipeline, packet, state, false, clock_ns);
  } else if (!state.exited) {
    if (!program->flat) return interpret(pipeline, pipeline.image.ingress_start, state);
    run_flat(pipeline, &NativePipeline::ingress, pipeline.image.flat.ingress, state);
  }
}

inline void SwitchCore::run_egress(Pipeline& pipeline, Packet& packet, PacketState& state,
                                   std::int64_t now_ns) {
  program->externs.now_ns = now_ns;
  if (packet.trace != 0) {
    run_traced(pipeline, packet, state, true, now_ns);
  } else if (!program->flat) {
    interpret(pipeline, pipeline.image.egress_start, state);
  } else {
    run_flat(pipeline, &NativePipeline::egress, pipeline.image.flat.egress, state);
  }
}

inline Packet* SwitchCore::copy_frame(const Packet& packet) {
  Packet* copy = program->pool.take();
  copy->buffer = program->pool.share(packet.buffer);
  copy->ingress_port = packet.ingress_port;
  copy->generation = packet.generation;
  return copy;
}

inline Packet* SwitchCore::copy(const Packet& packet) {
  Packet* copy = copy_frame(packet);
  copy_phv(packet, *copy);
  copy->cursor = packet.cursor;
  copy->received_length = packet.received_length;
  return copy;
}

inline void SwitchCore::copy_phv(const Packet& from, Packet& to) const {
  program->pool.lend_vector(to);
  if (!runs_flat(from)) {
    std::copy_n(from.phv, program->image.shared_cells, to.phv);
    return;
  }
  if (program->pipeline.native) {
    return program->pipeline.native->code().copy(from.phv, to.phv);
  }
  for (const CellRun& run : program->image.copied_runs) {
    std::copy_n(from.phv + run.first, run.count, to.phv + run.first);
  }
}

inline void SwitchCore::send(std::uint32_t port, Packet* packet) {
  packet->label = label_of(*packet);
  enqueue(port, packet, bytes_to_queue(*packet));
}

inline std::uint32_t SwitchCore::label_as_received(const Packet& packet) const {
  return options.label.of_frame == nullptr ? 0 : options.label.of_frame(packet.buffer->frame());
}

inline std::uint32_t SwitchCore::label_of(const Packet& packet) const {
  const Cell* const phv = packet.phv;
  if (packet.ingress_port == options.cpu_port) return 0;
  if (program->label_valid_cell == kNone) return label_as_received(packet);
  if (phv[program->label_valid_cell] == 0) return 0;
  return options.label.label(phv[program->label_cell]);
}

inline std::uint32_t SwitchCore::bytes_to_queue(const Packet& packet) const {
  const std::size_t bytes = program->pipeline.machine.deparser.header_bytes(packet.phv) +
                            packet.buffer->size - packet.cursor;
  return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, packet.truncate));
}

inline void SwitchCore::enqueue(std::uint32_t port, Packet* packet, std::uint32_t bytes) {
  if (!ports->has(port)) {
    ++stats.no_port_packets;
    return drop(packet, "queue", "the egress port does not exist");
  }
  if (packet->trace != 0) return enqueue_traced(port, packet, bytes);
  ports->enqueue(port, packet, bytes, clock_ns);
}

}  // namespace tiercast::engine
