// A packet's way through v1model: parser, ingress, replication, queue, egress, deparser.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "dataplane/engine/arch/v1model/run_nodes.h"
#include "dataplane/engine/arch/v1model/switch_state.h"
#include "dataplane/engine/control/byte_values.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kMaxFrameBytes = 65535;
constexpr std::uint32_t kMaxGeneration = 16;

// standard_metadata.instance_type, as in bmv2's simple_switch.
constexpr std::uint32_t kNormal = 0;
constexpr std::uint32_t kIngressClone = 1;
constexpr std::uint32_t kEgressClone = 2;
constexpr std::uint32_t kRecirculated = 4;
constexpr std::uint32_t kReplicated = 5;
constexpr std::uint32_t kResubmitted = 6;

void set(Cell* phv, const Field& field, std::uint64_t value) {
  phv[field.cell] = value & low_mask(field.width);
}

std::uint64_t microseconds(std::int64_t ns) { return static_cast<std::uint64_t>(ns) / 1000; }

}  // namespace

Loaded::Loaded(std::shared_ptr<const Program> loaded, const Switch::Options& options,
               Output& output, const PortSet& ports_down)
    : program(std::move(loaded)),
      image(program->image()),
      externs(image, options.seed),
      machine(image, externs, output, options.drop_port),
      flat(options.flat_code && image.flat.present()),
      // A program that replaces another may need larger packets than those who share the pool.
      owned_pool(options.pool != nullptr && options.pool->phv_cells() == image.phv_cells
                     ? options.pool
                     : std::make_shared<PacketPool>(image.phv_cells)),
      pool(*owned_pool),
      kept(image.phv_cells) {
  for (const DigestInfo& info : image.digest_infos) digests.emplace_back(info.widths);
  for (const ActionProfile& layout : image.profiles) {
    profiles.push_back(std::make_unique<ProfileMembers>(image, layout, ports_down));
  }
  for (const Table& layout : image.tables) {
    ProfileMembers* profile = layout.profile == kNone ? nullptr : profiles[layout.profile].get();
    tables.push_back(std::make_unique<MatchTable>(image, layout, profile));
    (void)tables.back()->install_constant_entries();  // checked by Program::load
  }
  if (options.label.label != nullptr) find_label(options.label);
}

void Loaded::find_label(const LabelRule& rule) {
  for (const Header& header : image.headers) {
    if (header.name != rule.header) continue;
    for (const Field& field : header.fields) {
      if (field.name != rule.field || field.width > kCellBits ||
          !std::binary_search(image.egress_reads.begin(), image.egress_reads.end(), field.cell)) {
        continue;
      }
      label_valid_cell = header.valid_cell;
      label_cell = field.cell;
    }
  }
}

MatchTable* Loaded::table(std::string_view name) {
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (image.tables[i].name == name) return tables[i].get();
  }
  return nullptr;
}

Switch::State::State(std::shared_ptr<const Program> program, Options wanted, Output& to)
    : options(wanted),
      output(to),
      loaded(std::make_unique<Loaded>(std::move(program), wanted, to, ports_down)) {
  if (wanted.cpu_port >= kMaxPorts) {
    throw std::invalid_argument("CPU port " + std::to_string(wanted.cpu_port) + ", valid: 0 to " +
                                std::to_string(kMaxPorts - 1));
  }
  ports = std::make_unique<TrafficManager>(kMaxPorts, loaded->pool, *this);
  ports->set(options.cpu_port, PortConfig{}, 0);
  find_timers();
}

void Switch::State::find_timers() {
  const auto& tables = loaded->image.tables;
  has_timers = !loaded->digests.empty() || std::any_of(tables.begin(), tables.end(),
                                                       [](auto& t) { return t.supports_timeout; });
}

void Switch::State::receive(std::uint32_t port, std::span<const std::byte> frame,
                            std::int64_t now_ns) {
  advance(now_ns);
  if (!ports->has(port)) {
    ++stats.no_port_packets;
    return;
  }
  if (frame.size() > kMaxFrameBytes) {
    ++stats.oversize_packets;
    return;
  }
  ++ports->stats(port).rx_packets;
  ports->stats(port).rx_bytes += frame.size();
  Packet* packet = loaded->pool.take();
  packet->buffer = loaded->pool.take_buffer(static_cast<std::uint32_t>(frame.size()));
  std::copy(frame.begin(), frame.end(), packet->buffer->bytes.get());
  packet->ingress_port = port;
  if (tracer.on()) choose_trace(*packet, port);
  if (ports->config(port).rx_delay_ns > 0) {
    ports->delay_arrival(port, packet, clock_ns);
  } else {
    ingress(packet, kNormal);
  }
  advance(clock_ns);
}

void Switch::State::advance(std::int64_t now_ns) {
  now_ns = std::max(now_ns, clock_ns);
  for (;;) {
    while (!again.empty()) ingress(again.pop(), kRecirculated);
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

std::int64_t Switch::State::next_timer() const {
  std::int64_t next = kNever;
  if (!has_timers) return next;
  for (const DigestGatherer& digest : loaded->digests) next = std::min(next, digest.due_ns());
  for (const auto& table : loaded->tables) next = std::min(next, table->next_expiry_ns());
  return next;
}

void Switch::State::fire_timers() {
  for (std::size_t i = 0; i < loaded->digests.size(); ++i) {
    DigestGatherer& gatherer = loaded->digests[i];
    if (gatherer.due_ns() > clock_ns) continue;
    gatherer.send(clock_ns, [&](DigestList list) {
      list.name = loaded->image.digests[i].name;
      return output.digest(list);
    });
  }
  for (std::size_t i = 0; i < loaded->tables.size(); ++i) {
    if (loaded->tables[i]->next_expiry_ns() > clock_ns) continue;
    const std::vector<TableEntry> expired = loaded->tables[i]->take_expired(clock_ns);
    if (!expired.empty()) output.entries_expired(loaded->image.tables[i].name, expired);
  }
}

void Switch::State::gather_digest(const PacketState& state) {
  if (state.digest == kNone || !loaded->digests[state.digest].config()) return;
  DigestGatherer& gatherer = loaded->digests[state.digest];
  std::span<std::byte> rest = gatherer.draft();
  for (const DigestField& f : loaded->image.digests[state.digest].fields) {
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

void Switch::State::arrive(std::uint32_t, Packet* packet, std::int64_t) {
  ingress(packet, kNormal);
}

void Switch::State::start(Packet& packet, PacketState& state, std::uint32_t instance_type) {
  const Intrinsics& m = loaded->image.intrinsics;
  packet.received_length = packet.buffer->size;
  state = PacketState{};
  state.phv = packet.phv.data();
  state.frame = packet.buffer->frame();
  state.received_length = packet.received_length;
  if (runs_flat(packet)) {
    for (const CellRun& run : loaded->image.initial_runs) {
      std::fill_n(state.phv + run.first, run.count, 0);
    }
  } else {
    std::fill(packet.phv.begin(), packet.phv.end(), 0);
  }
  set(state.phv, m.ingress_port, packet.ingress_port);
  set(state.phv, m.packet_length, packet.received_length);
  set(state.phv, m.instance_type, instance_type);
  set(state.phv, m.ingress_global_timestamp, microseconds(clock_ns));
}

bool Switch::State::next_generation(Packet& packet) {
  if (++packet.generation <= kMaxGeneration) return true;
  ++stats.recirculation_limit_packets;
  return false;
}

void Switch::State::keep_fields(std::uint32_t list, const Cell* phv) {
  for (const Field& f : loaded->image.field_lists[list].fields) {
    std::copy_n(phv + f.cell, cells_for(f.width), loaded->kept.data() + f.cell);
  }
}

void Switch::State::restore_fields(std::uint32_t list, Cell* phv) const {
  for (const Field& f : loaded->image.field_lists[list].fields) {
    std::copy_n(loaded->kept.data() + f.cell, cells_for(f.width), phv + f.cell);
  }
}

void Switch::State::ingress(Packet* packet, std::uint32_t instance_type) {
  const Image& image = loaded->image;
  const Intrinsics& m = image.intrinsics;
  PacketState state;
  const bool flat = runs_flat(*packet);
  std::uint32_t kept_list = 0;
  if (instance_type == kRecirculated) {
    // egress() left the fields to keep in the packet vector, and their list in the cursor.
    kept_list = packet->cursor;
    keep_fields(kept_list, packet->phv.data());
  }
  for (;;) {
    start(*packet, state, instance_type);
    restore_fields(kept_list, state.phv);
    set(state.phv, m.instance_type, instance_type);
    loaded->externs.now_ns = clock_ns;
    if (packet->trace == 0) {
      parse(state, flat);
    } else {
      parse_traced(*packet, state);
    }
    state.phv[image.tracked_cell] = flat ? 1 : 0;
    for (std::uint32_t dirty : image.always_dirty) state.phv[dirty] = 1;
    set(state.phv, m.parser_error, state.error);
    packet->cursor = static_cast<std::uint32_t>(state.cursor);
    state.error = 0;
    if (flat) {
      loaded->machine.run_flat(image.flat.verify_checksums, state, loaded->tables);
    } else {
      loaded->machine.verify_checksums(state);
    }
    if (packet->trace != 0) {
      run_traced(*packet, state, false, clock_ns);
    } else if (!state.exited) {
      run_pipeline(image.ingress_start, image.flat.ingress, state);
    }
    if (state.assertion_failed) {
      ++stats.assertion_failed_packets;
      return loaded->pool.give(packet);
    }
    packet->truncate = state.truncate;
    gather_digest(state);
    if (state.clone_session != 0) clone(*packet, state, false);
    if (!state.resubmit) break;
    if (!next_generation(*packet)) return drop(packet, "ingress", "resubmitted too often");
    if (packet->trace != 0) tell_again(*packet, "resubmit");
    kept_list = state.again_fields;
    keep_fields(kept_list, state.phv);
    instance_type = kResubmitted;
  }

  const auto group = static_cast<std::uint32_t>(state.phv[m.mcast_grp.cell]);
  if (group != 0) {
    set(state.phv, m.instance_type, kReplicated);
    const auto found = loaded->groups.find(group);
    if (found == loaded->groups.end()) return drop(packet, "ingress", "no such multicast group");
    if (packet->trace != 0) tell_replicate(*packet, group, found->second);
    return copy_to_replicas(packet, found->second);
  }
  const auto port = static_cast<std::uint32_t>(state.phv[m.egress_spec.cell]);
  if (port == options.drop_port) {
    ++stats.ingress_dropped_packets;
    return loaded->pool.give(packet);
  }
  set(state.phv, m.instance_type, kNormal);
  packet->label = label_of(*packet);
  enqueue(port, packet, bytes_to_queue(*packet));
}

void Switch::State::copy_to_replicas(Packet* packet, const std::vector<Replica>& replicas) {
  const Field& rid = loaded->image.intrinsics.egress_rid;
  const std::uint32_t bytes = bytes_to_queue(*packet);
  packet->label = label_of(*packet);
  if (replicas.size() > 1) rewrite_once(*packet);
  for (std::size_t n = 0; n < replicas.size(); ++n) {
    Packet* copy = packet;
    if (n + 1 < replicas.size()) {  // the last one takes the packet itself
      copy = loaded->pool.take();
      copy_phv(*packet, *copy);
      copy->buffer = loaded->pool.share(packet->buffer);
      copy->cursor = packet->cursor;
      copy->received_length = packet->received_length;
      copy->ingress_port = packet->ingress_port;
      copy->label = packet->label;
      copy->truncate = packet->truncate;
      copy->is_written = packet->is_written;
      copy->generation = packet->generation;
      if (packet->trace != 0) tracer.number_copy(*packet, *copy);
    }
    set(copy->phv.data(), rid, replicas[n].instance);
    enqueue(replicas[n].port, copy, bytes);
  }
  if (replicas.empty()) drop(packet, "ingress", "no replicas");
}

void Switch::State::rewrite_once(Packet& packet) {
  const Image& image = loaded->image;
  if (!image.early_rewrite || !runs_flat(packet) || packet.buffer->references > 1) return;
  Cell* const phv = packet.phv.data();
  if (phv[image.tracked_cell] == 0) return;
  const Machine::Frame needs = loaded->machine.compare_with_frame(phv, packet.cursor);
  if (needs == Machine::Frame::kDeparse) return;
  if (needs == Machine::Frame::kRewrite) {
    loaded->machine.rewrite_early(phv, packet.buffer->bytes.get());
  }
  packet.is_written = image.egress_watch && loaded->machine.all_zero(phv, *image.egress_watch);
}

void Switch::State::clone(const Packet& original, const PacketState& state, bool from_egress) {
  const auto found = loaded->sessions.find(state.clone_session);
  if (found == loaded->sessions.end()) return;
  const Image& image = loaded->image;
  Packet* copy = loaded->pool.take();
  copy->buffer = loaded->pool.share(original.buffer);
  copy->ingress_port = original.ingress_port;
  copy->generation = original.generation;
  if (original.trace != 0) tracer.number_copy(original, *copy);
  if (!next_generation(*copy)) return drop(copy, "clone", "cloned too often");
  if (original.trace != 0) tell_clone(original, *copy, state.clone_session, found->second);
  if (from_egress) {
    copy_phv(original, *copy);
    copy->cursor = original.cursor;
    copy->received_length = original.received_length;
  } else {
    // The packet as it came: parsed again.
    PacketState fresh;
    start(*copy, fresh, kIngressClone);
    parse(fresh, runs_flat(*copy));
    copy->cursor = static_cast<std::uint32_t>(fresh.cursor);
  }
  std::fill(copy->phv.begin(), copy->phv.begin() + image.metadata_end, 0);
  for (const Field& f : image.field_lists[state.clone_fields].fields) {
    std::copy_n(state.phv + f.cell, cells_for(f.width), copy->phv.data() + f.cell);
  }
  set(copy->phv.data(), image.intrinsics.instance_type, from_egress ? kEgressClone : kIngressClone);
  copy->truncate = found->second.packet_length;
  copy_to_replicas(copy, found->second.replicas);
}

std::uint32_t Switch::State::label_of(const Packet& packet) const {
  const Cell* const phv = packet.phv.data();
  if (loaded->label_valid_cell == kNone || phv[loaded->label_valid_cell] == 0 ||
      packet.ingress_port == options.cpu_port) {
    return 0;
  }
  return options.label.label(phv[loaded->label_cell]);
}

std::uint32_t Switch::State::bytes_to_queue(const Packet& packet) const {
  std::size_t bytes =
      loaded->machine.header_bytes(packet.phv.data()) + packet.buffer->size - packet.cursor;
  if (packet.truncate != 0) bytes = std::min<std::size_t>(bytes, packet.truncate);
  return static_cast<std::uint32_t>(bytes);
}

void Switch::State::enqueue(std::uint32_t port, Packet* packet, std::uint32_t bytes) {
  if (!ports->has(port)) {
    ++stats.no_port_packets;
    return drop(packet, "queue", "the egress port does not exist");
  }
  if (packet->trace != 0) tell_enqueue(*packet, port, bytes);
  ports->enqueue(port, packet, bytes, clock_ns);
}

bool Switch::State::egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
                           std::int64_t now_ns) {
  const Image& image = loaded->image;
  const Intrinsics& m = image.intrinsics;
  PacketState state;
  state.phv = packet.phv.data();
  state.frame = packet.buffer->frame();
  state.cursor = packet.cursor;
  state.received_length = packet.received_length;
  set(state.phv, m.egress_port, port);
  set(state.phv, m.egress_spec, 0);
  set(state.phv, m.packet_length, packet.received_length);
  set(state.phv, m.egress_global_timestamp, microseconds(now_ns));
  set(state.phv, m.enq_timestamp, microseconds(packet.time_ns));
  set(state.phv, m.enq_qdepth, packet.enq_qdepth);
  // Rounded up: 0 if, and only if, the packet did not wait.
  set(state.phv, m.deq_timedelta, microseconds(now_ns - packet.time_ns + 999));
  set(state.phv, m.deq_qdepth, waiting);
  loaded->externs.now_ns = now_ns;
  if (packet.trace != 0) {
    tell_dequeue(packet, port, waiting, now_ns);
    run_traced(packet, state, true, now_ns);
  } else {
    run_pipeline(image.egress_start, image.flat.egress, state);
  }
  if (state.assertion_failed) {
    ++stats.assertion_failed_packets;
    return false;
  }
  if (state.truncate != 0) packet.truncate = state.truncate;
  if (state.clone_session != 0) clone(packet, state, true);
  if (state.phv[m.egress_spec.cell] == options.drop_port) {
    ++ports->stats(port).egress_dropped_packets;
    return false;
  }

  if (!runs_flat(packet)) {
    loaded->machine.update_checksums(state);
  } else if (!image.flat.is_empty(image.flat.update_checksums)) {
    loaded->machine.run_flat(image.flat.update_checksums, state, loaded->tables);
  }
  if (!image.deparser_code.empty()) {
    loaded->machine.run(image.deparser_code, state);
    state.phv[image.tracked_cell] = 0;  // it may have written any header
  }
  if (!deparse(packet, state)) return false;

  if (state.recirculate) {
    if (packet.trace != 0) tell_again(packet, "recirculate");
    Packet* round = loaded->pool.take();
    round->trace = packet.trace;
    round->copy = packet.copy;
    round->buffer = loaded->pool.share(packet.buffer);
    round->ingress_port = packet.ingress_port;
    round->generation = packet.generation;
    if (!next_generation(*round)) {
      loaded->pool.give(round);
      return false;
    }
    copy_phv(packet, *round);
    round->cursor = state.again_fields;
    again.push(round);
    return false;
  }
  return true;
}

bool Switch::State::deparse(Packet& packet, const PacketState& state) {
  const Machine& machine = loaded->machine;
  FrameBuffer* received = packet.buffer;
  if (packet.is_written && packet.truncate == 0 &&
      machine.all_zero(state.phv, *loaded->image.egress_watch)) {
    return true;
  }
  const Machine::Frame needs = machine.compare_with_frame(state.phv, state.cursor);
  if (needs != Machine::Frame::kDeparse) {
    const bool shortens = packet.truncate != 0 && packet.truncate < received->size;
    const bool changes = needs == Machine::Frame::kRewrite;
    if (!changes && !shortens) return true;  // copies go on sharing the frame
    if (received->references > 1) {
      packet.buffer = loaded->pool.take_buffer(received->size);
      std::copy_n(received->bytes.get(), received->size, packet.buffer->bytes.get());
      loaded->pool.release(received);
    }
    if (changes) machine.rewrite(state.phv, packet.buffer->bytes.get());
  } else {
    const auto payload = state.frame.subspan(packet.cursor);
    const std::size_t headers = machine.header_bytes(state.phv);
    if (headers + payload.size() > kMaxFrameBytes) {
      ++stats.oversize_packets;
      return false;
    }
    FrameBuffer* frame =
        loaded->pool.take_buffer(static_cast<std::uint32_t>(headers + payload.size()));
    machine.deparse(state, frame->bytes.get());
    std::copy(payload.begin(), payload.end(), frame->bytes.get() + headers);
    loaded->pool.release(received);
    packet.buffer = frame;
  }
  if (packet.truncate != 0) packet.buffer->size = std::min(packet.buffer->size, packet.truncate);
  return true;
}

void Switch::State::copy_phv(const Packet& from, Packet& to) const {
  if (!runs_flat(from)) {
    std::copy_n(from.phv.begin(), loaded->image.shared_cells, to.phv.begin());
    return;
  }
  for (const CellRun& run : loaded->image.copied_runs) {
    std::copy_n(from.phv.data() + run.first, run.count, to.phv.data() + run.first);
  }
}

void Switch::State::deliver(std::uint32_t port, const Packet& packet) {
  if (packet.trace != 0) tell_leaves(packet, port);
  if (port == options.cpu_port) {
    output.packet_in(packet.buffer->frame());
  } else {
    output.transmit(port, packet.buffer->frame(), packet.time_ns);
  }
}

void Switch::State::drop(Packet* packet, const char* where, const char* reason) {
  if (packet->trace != 0) tell_drop(*packet, where, reason);
  loaded->pool.give(packet);
}

namespace {

// The observer of a packet that is not traced.
struct Unobserved {
  void branch(const Image&, const Node&, bool) {}
  void run(Machine& machine, const Image&, const Action& action, PacketState& state,
           const Cell* arguments) {
    machine.run(action.code, state, arguments);
  }
  void table(const Image&, const Table&, MatchTable&, const PacketState&,
             const MatchTable::Outcome&, const MatchTable::Entry*) {}
  static const MatchTable::Entry* lookup(MatchTable&, const PacketState&) { return nullptr; }
};

}  // namespace

void Switch::State::parse(PacketState& state, bool flat) {
  if (flat) return loaded->machine.parse_flat(state, loaded->tables);
  loaded->machine.parse(state);
}

void Switch::State::run_pipeline(std::uint32_t node, std::uint32_t flat, PacketState& state) {
  if (loaded->flat) return loaded->machine.run_flat(flat, state, loaded->tables);
  Unobserved nobody;
  run_nodes(node, state, nobody);
}

}  // namespace tiercast::engine
