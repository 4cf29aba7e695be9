// The parts of a switch that do not depend on the architecture: time, timers, and the functions
// that a PacketPath is built from.
#include "dataplane/engine/run/switch_core.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "dataplane/engine/control/byte_values.h"
#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/packet/bits.h"
#include "dataplane/engine/run/run_nodes.h"

namespace tiercast::engine {

Pipeline::Pipeline(const Image& of, Externs& externs, const SwitchCore& core)
    : image(of), machine(of, externs, core.output, core.options.drop_port) {}

ProgramState::ProgramState(std::shared_ptr<const Image> loaded, const PortSet& ports_down,
                           SwitchCore& core)
    : owned_image(std::move(loaded)),
      image(*owned_image),
      externs(image, core.options.seed),
      pipeline(image, externs, core),
      flat(core.options.flat_code && image.flat.present()),
      // A new program may need larger packets than the other switches that share the pool.
      owned_pool(core.options.pool != nullptr && core.options.pool->phv_cells() == image.phv_cells
                     ? core.options.pool
                     : std::make_shared<PacketPool>(image.phv_cells)),
      pool(*owned_pool) {
  if (image.egress != nullptr) {
    egress_pipeline.emplace(*image.egress, externs, core);
    flat = flat && image.egress->flat.present();
  }
  for (const DigestInfo& info : image.digest_infos) digests.emplace_back(info.widths);
  for (const ActionProfile& layout : image.profiles) {
    profiles.push_back(std::make_unique<ProfileMembers>(image, layout, ports_down));
  }
  for (const Table& layout : image.tables) {
    ProfileMembers* profile = layout.profile == kNone ? nullptr : profiles[layout.profile].get();
    tables.push_back(std::make_unique<MatchTable>(image, layout, profile));
    tables.back()->begin_with(*image.first_tables[tables.size() - 1]);
  }
  if (core.options.label.label != nullptr) find_label(core.options.label);
  if (image.egress != nullptr) find_depth_register(core.options.depth_register);
  path = image.architecture->make_path(core, *this);
}

void ProgramState::find_depth_register(std::string_view name) {
  for (std::uint32_t i = 0; i < image.registers.size(); ++i) {
    if (image.registers[i].name == name) depth_register = i;
  }
}

void ProgramState::find_label(const LabelRule& rule) {
  for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
    const Header& header = image.headers[h];
    if (header.name != rule.header || header.varbit != kNone) continue;
    std::uint32_t bit = 0;
    for (const Field& field : header.fields) {
      const std::uint32_t at = bit;
      bit += field.width;
      // A queue that holds parsed packets has only the fields that egress reads.
      const bool is_queued =
          image.egress != nullptr ||
          std::binary_search(image.egress_reads.begin(), image.egress_reads.end(), field.cell);
      if (field.name != rule.field || field.width > kCellBits || !is_queued) continue;
      label_valid_cell = header.valid_cell;
      label_cell = field.cell;
      label_header = h;
      label_bit = at;
      label_width = field.width;
    }
  }
}

void ProgramState::run_native(std::shared_ptr<const NativeProgram> code, std::uint32_t drop_port) {
  const auto use = [&](Pipeline& with, const NativePipeline* made) {
    with.native.reset();
    with.machine.deparser.use(made);
    if (made != nullptr) {
      with.native.emplace(*made, with.image, externs, with.machine, tables, drop_port);
    }
  };
  if (!flat) return;
  use(pipeline, code == nullptr ? nullptr : &code->pipeline);
  if (egress_pipeline) use(*egress_pipeline, code == nullptr ? nullptr : code->egress);
  native = std::move(code);
}

MatchTable* ProgramState::table(std::string_view name) {
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (image.tables[i].name == name) return tables[i].get();
  }
  return nullptr;
}

SwitchCore::SwitchCore(std::shared_ptr<const Image> image, SwitchOptions given_options, Output& to)
    : options(std::move(given_options)),
      output(to),
      program(std::make_unique<ProgramState>(std::move(image), ports_down, *this)) {
  if (options.cpu_port >= kPortNumbers) {
    throw std::invalid_argument("CPU port " + std::to_string(options.cpu_port) + ", valid: 0 to " +
                                std::to_string(kPortNumbers - 1));
  }
  ports =
      std::make_unique<TrafficManager>(kPortNumbers, program->pool, *program->path, options.seed);
  ports->set(options.cpu_port, PortConfig{}, 0);
  find_timers();
}

void SwitchCore::run_native(std::shared_ptr<const NativeProgram> code) {
  program->run_native(std::move(code), options.drop_port);
}

void SwitchCore::set_program(std::shared_ptr<const Image> image) {
  auto next = std::make_unique<ProgramState>(std::move(image), ports_down, *this);
  auto next_ports =
      std::make_unique<TrafficManager>(kPortNumbers, next->pool, *next->path, options.seed);
  for (std::uint32_t port : ports->ports()) {
    next_ports->set(port, ports->config(port), clock_ns);
    next_ports->stats(port) = ports->stats(port);
    next_ports->stats(port).queue_packets = 0;
    next_ports->stats(port).queue_bytes = 0;
  }
  again_ = {};
  tracer.end_program(clock_ns);
  stats = all_stats();
  ports = std::move(next_ports);
  program = std::move(next);
  find_timers();
}

SwitchStats SwitchCore::all_stats() const {
  SwitchStats all = stats;
  for (const DigestGatherer& digest : program->digests) all.dropped_digests += digest.dropped();
  return all;
}

void SwitchCore::find_timers() {
  const auto& tables = program->image.tables;
  has_timers_ = !program->digests.empty() || std::any_of(tables.begin(), tables.end(), [](auto& t) {
    return t.supports_timeout;
  });
}

bool SwitchCore::admits(std::uint32_t port, std::size_t bytes) {
  if (!ports->has(port)) {
    ++stats.no_port_packets;
    return false;
  }
  if (bytes > kMaxFrameBytes) {
    ++stats.oversize_packets;
    return false;
  }
  ++ports->stats(port).rx_packets;
  ports->stats(port).rx_bytes += bytes;
  return true;
}

void SwitchCore::receive(std::uint32_t port, std::span<const std::byte> frame,
                         std::int64_t now_ns) {
  advance(now_ns);
  if (!admits(port, frame.size())) return;
  Packet* packet = program->pool.take();
  packet->buffer = program->pool.take_buffer(static_cast<std::uint32_t>(frame.size()));
  std::copy(frame.begin(), frame.end(), packet->buffer->bytes);
  enter(port, packet);
}

void SwitchCore::receive(std::uint32_t port, const LentFrame& frame, std::int64_t now_ns) {
  advance(now_ns);
  if (!admits(port, frame.bytes.size())) return frame.lender->take_back(frame.handle);
  Packet* packet = program->pool.take();
  packet->buffer = program->pool.take_lent(frame);
  enter(port, packet);
}

void SwitchCore::enter(std::uint32_t port, Packet* packet) {
  packet->ingress_port = port;
  if (tracer.on()) choose_trace(*packet, port);
  if (ports->delays_arrivals(port)) {
    ports->delay_arrival(port, packet, clock_ns);
  } else {
    program->path->ingress(packet);
  }
  advance(clock_ns);
}

void SwitchCore::advance(std::int64_t now_ns) {
  now_ns = std::max(now_ns, clock_ns);
  for (;;) {
    while (!again_.empty()) program->path->again(again_.pop());
    const std::int64_t next = ports->next_event();
    if (const std::int64_t timer = next_timer(); timer <= std::min(next, now_ns)) {
      clock_ns = std::max(clock_ns, timer);
      fire_timers();
      continue;
    }
    if (next > now_ns) break;
    clock_ns = std::max(clock_ns, next);
    ports->step();
  }
  clock_ns = now_ns;
}

std::int64_t SwitchCore::next_due_timer() const {
  std::int64_t next = kNever;
  for (const DigestGatherer& digest : program->digests) next = std::min(next, digest.due_ns());
  for (const auto& table : program->tables) next = std::min(next, table->next_expiry_ns());
  return next;
}

void SwitchCore::fire_timers() {
  for (std::size_t i = 0; i < program->digests.size(); ++i) {
    DigestGatherer& gatherer = program->digests[i];
    if (gatherer.due_ns() > clock_ns) continue;
    gatherer.send(clock_ns, [&](DigestList list) {
      list.name = program->image.digests[i].name;
      return output.digest(list);
    });
  }
  for (std::size_t i = 0; i < program->tables.size(); ++i) {
    if (program->tables[i]->next_expiry_ns() > clock_ns) continue;
    const std::vector<TableEntry> expired = program->tables[i]->take_expired(clock_ns);
    if (!expired.empty()) output.entries_expired(program->image.tables[i].name, expired);
  }
}

void SwitchCore::gather(const PacketState& state) {
  const std::uint32_t digest = state.digest;
  if (!program->digests[digest].config()) return;
  DigestGatherer& gatherer = program->digests[digest];
  std::span<std::byte> rest = gatherer.draft();
  for (const DigestField& f : program->image.digests[digest].fields) {
    const std::span<std::byte> place = rest.first((f.field.width + 7) / 8);
    rest = rest.subspan(place.size());
    if (f.constant.empty()) {
      write_network_order(state.phv + f.field.cell, f.field.width, place);
    } else {
      std::copy_n(reinterpret_cast<const std::byte*>(f.constant.data()), place.size(),
                  place.begin());
    }
  }
  gatherer.add(clock_ns);
}

void SwitchCore::deliver(std::uint32_t port, const Packet& packet) {
  if (packet.trace != 0) tell_leaves(packet, port);
  if (port == options.cpu_port) {
    output.packet_in(packet.buffer->frame());
  } else if (packet.buffer->lender != nullptr) {
    transmit_lent(port, *packet.buffer, packet.time_ns);
  } else {
    output.transmit(port, packet.buffer->frame(), packet.time_ns);
  }
}

void SwitchCore::transmit_lent(std::uint32_t port, FrameBuffer& buffer, std::int64_t due_ns) {
  const bool last = buffer.references == 1;
  const LentFrame frame{buffer.frame(), buffer.handle, buffer.lender};
  if (!output.transmit_lent(port, frame, last, due_ns)) return;
  if (last) {
    buffer.lender = nullptr;
  } else {
    buffer.is_shown = true;
  }
}

namespace {

// The observer of packets that are not traced.
struct Unobserved {
  static bool branch(Machine& machine, const Image& image, std::uint32_t node, PacketState& state) {
    return machine.interpreter.run(image.nodes[node].condition, state);
  }
  static void run(Machine& machine, const Image&, std::uint32_t, const Action& action,
                  PacketState& state, const Cell* arguments) {
    machine.interpreter.run(action.code, state, arguments);
  }
  void table(const Image&, std::uint32_t, MatchTable&, const PacketState&,
             const MatchTable::Outcome&, const MatchTable::Entry*) {}
  static const MatchTable::Entry* lookup(MatchTable&, const PacketState&) { return nullptr; }
};

}  // namespace

void SwitchCore::interpret(Pipeline& pipeline, std::uint32_t node, PacketState& state) {
  Unobserved nobody;
  run_nodes(pipeline, node, state, nobody);
}

bool SwitchCore::deparse(Pipeline& pipeline, Packet& packet, PacketState& state) {
  const Image& image = pipeline.image;
  if (!image.deparser_code.empty()) {
    pipeline.machine.interpreter.run(image.deparser_code, state);
    state.phv[image.tracked_cell] = 0;  // that code may have written any header
  }
  const Deparser& deparser = pipeline.machine.deparser;
  FrameBuffer* received = packet.buffer;
  if (packet.is_written && packet.truncate == kMaxFrameBytes && deparser.is_unchanged(state.phv)) {
    return true;
  }
  const FrameNeeds needs = deparser.compare_with_frame(state.phv, state.cursor);
  if (needs != FrameNeeds::kDeparse) {
    const bool shortens = packet.truncate < received->size;
    const bool changes = needs == FrameNeeds::kRewrite;
    if (!changes && !shortens) return true;  // copies keep sharing the frame
    program->pool.unshare(packet);
    if (changes) deparser.rewrite(state.phv, packet.buffer->bytes);
  } else {
    const auto payload = state.frame().subspan(packet.cursor);
    const std::size_t headers = deparser.header_bytes(state.phv);
    if (headers + payload.size() > kMaxFrameBytes) {
      ++stats.oversize_packets;
      return false;
    }
    FrameBuffer* frame =
        program->pool.take_buffer(static_cast<std::uint32_t>(headers + payload.size()));
    deparser.write(state, frame->bytes);
    std::copy(payload.begin(), payload.end(), frame->bytes + headers);
    program->pool.release(received);
    packet.buffer = frame;
  }
  packet.buffer->size = std::min(packet.buffer->size, packet.truncate);
  return true;
}

void SwitchCore::replicate(Packet* packet, const std::vector<Replica>& replicas,
                           const MetadataField& instance) {
  const std::uint32_t bytes = bytes_to_queue(*packet);
  packet->label = label_of(*packet);
  if (replicas.size() > 1) rewrite_once(*packet);
  for (std::size_t n = 0; n < replicas.size(); ++n) {
    Packet* replica = packet;
    if (n + 1 < replicas.size()) {  // the last replica is the packet itself
      replica = copy(*packet);
      replica->label = packet->label;
      replica->truncate = packet->truncate;
      replica->priority = packet->priority;
      replica->is_written = packet->is_written;
      if (packet->trace != 0) tracer.number_copy(*packet, *replica);
    }
    set(replica->phv, instance, replicas[n].instance);
    enqueue(replicas[n].port, replica, bytes);
  }
  if (replicas.empty()) drop(packet, "ingress", "no replicas");
}

void SwitchCore::rewrite_once(Packet& packet) {
  const Image& image = program->image;
  if (!image.early_rewrite || !runs_flat(packet) || packet.buffer->is_shared()) return;
  Cell* const phv = packet.phv;
  if (phv[image.tracked_cell] == 0) return;
  const Deparser& deparser = program->pipeline.machine.deparser;
  const FrameNeeds needs = deparser.compare_with_frame(phv, packet.cursor);
  if (needs == FrameNeeds::kDeparse) return;
  if (needs == FrameNeeds::kRewrite) {
    deparser.rewrite_early(phv, packet.buffer->bytes);
  }
  packet.is_written = image.egress_watch && deparser.is_unchanged(phv);
}

void SwitchCore::write_depth(std::uint32_t port) {
  const RegisterArray& array = program->image.registers[program->depth_register];
  if (port >= array.size) return;
  program->externs.registers[program->depth_register][port] =
      std::min<Cell>(ports->stats(port).queue_packets, low_mask(array.width));
}

std::uint32_t SwitchCore::label_of_frame(const Pipeline& pipeline, const Packet& packet) const {
  const Cell* const phv = packet.phv;
  if (packet.ingress_port == options.cpu_port) return 0;
  if (program->label_valid_cell == kNone) return label_as_received(packet);
  std::size_t bytes = 0;
  for (const DeparseStep& step : pipeline.image.deparse_steps) {
    if (phv[step.valid_cell] == 0) continue;
    if (step.header == program->label_header) {
      const std::span<const std::byte> frame = packet.buffer->frame();
      if (frame.size() < bytes + step.bytes) return 0;
      return options.label.label(
          read_bits(frame.data(), bytes * 8 + program->label_bit, program->label_width));
    }
    bytes += step.bytes;
    if (step.varbit_cell != 0) bytes += phv[step.varbit_cell] / 8;
  }
  return 0;
}

bool SwitchCore::next_generation(Packet& packet) {
  if (++packet.generation <= kMaxGeneration) return true;
  ++stats.recirculation_limit_packets;
  return false;
}

void SwitchCore::drop(Packet* packet, const char* where, const char* reason) {
  if (packet->trace != 0) tell_drop(*packet, where, reason);
  program->pool.give(packet);
}

}  // namespace tiercast::engine
