#include "dataplane/engine/arch/v1model/path.h"

#include <algorithm>

#include "dataplane/engine/arch/metadata.h"

namespace tiercast::engine {

V1modelPath::V1modelPath(SwitchCore& core, ProgramState& program)
    : core_(core),
      program_(program),
      pipeline_(program.pipeline),
      m_(static_cast<const V1modelFields&>(*program.image.fields)),
      kept_(program.image.phv_cells) {}

void V1modelPath::begin(Packet& packet, PacketState& state, InstanceType type) {
  core_.begin(pipeline_, packet, state);
  set(state.phv, m_.ingress_port, packet.ingress_port);
  set(state.phv, m_.packet_length, packet.received_length);
  set(state.phv, m_.instance_type, type);
  set(state.phv, m_.ingress_global_timestamp, microseconds(core_.clock_ns));
}

void V1modelPath::keep_fields(std::uint32_t list, const Cell* phv) {
  for (const Field& f : program_.image.field_lists[list].fields) {
    std::copy_n(phv + f.cell, cells_for(f.width), kept_.data() + f.cell);
  }
}

void V1modelPath::restore_fields(std::uint32_t list, Cell* phv) const {
  for (const Field& f : program_.image.field_lists[list].fields) {
    std::copy_n(kept_.data() + f.cell, cells_for(f.width), phv + f.cell);
  }
}

void V1modelPath::ingress(Packet* packet) { run_ingress(packet, kNormal, 0); }

void V1modelPath::again(Packet* packet) {
  // recirculate() left the fields to keep in the packet vector, and the number of their list in the
  // cursor.
  keep_fields(packet->cursor, packet->phv);
  run_ingress(packet, kRecirculated, packet->cursor);
}

void V1modelPath::run_ingress(Packet* packet, InstanceType type, std::uint32_t kept_list) {
  PacketState state;
  for (;;) {
    begin(*packet, state, type);
    if (kept_list != 0) {
      restore_fields(kept_list, state.phv);
      set(state.phv, m_.instance_type, type);  // instance_type itself may be in the list, so it is
                                               // set last
    }
    core_.parse(pipeline_, *packet, state, core_.clock_ns);
    set(state.phv, m_.parser_error, state.parser_error());
    state.error = 0;
    core_.verify_checksums(pipeline_, *packet, state);
    core_.run_ingress(pipeline_, *packet, state);
    if (core_.assertion_failed(state)) return program_.pool.give(packet);
    packet->truncate = state.truncate;
    core_.gather_digest(state);
    if (state.clone_session != 0) clone(*packet, state, kIngressClone);
    if (!state.resubmit) break;
    if (!core_.next_generation(*packet)) {
      return core_.drop(packet, "ingress", "resubmitted too often");
    }
    if (packet->trace != 0) core_.report(*packet, "resubmit");
    kept_list = state.again_fields;
    keep_fields(kept_list, state.phv);
    type = kResubmitted;
  }

  packet->priority = priority_of(state.phv);
  const auto group = static_cast<std::uint32_t>(state.phv[m_.mcast_grp.cell]);
  if (group != 0) {
    set(state.phv, m_.instance_type, kReplicated);
    const auto found = program_.groups.find(group);
    if (found == program_.groups.end()) {
      return core_.drop(packet, "ingress", "no such multicast group");
    }
    if (packet->trace != 0) core_.tell_replicate(*packet, group, found->second);
    return core_.replicate(packet, found->second, m_.egress_rid);
  }
  const auto port = static_cast<std::uint32_t>(state.phv[m_.egress_spec.cell]);
  if (port == core_.options.drop_port) {
    ++core_.stats.ingress_dropped_packets;
    return program_.pool.give(packet);
  }
  set(state.phv, m_.instance_type, kNormal);
  core_.send(port, packet);
}

void V1modelPath::clone(const Packet& original, const PacketState& state, InstanceType type) {
  const auto found = program_.sessions.find(state.clone_session);
  if (found == program_.sessions.end()) return;
  // A clone from ingress is the packet as received, and is parsed again. A clone from egress is the
  // packet as it is now.
  Packet* copy = type == kEgressClone ? core_.copy(original) : core_.copy_frame(original);
  if (original.trace != 0) core_.tracer.number_copy(original, *copy);
  if (!core_.next_generation(*copy)) return core_.drop(copy, "clone", "cloned too often");
  if (original.trace != 0) core_.tell_clone(original, *copy, state.clone_session, found->second);
  if (type == kIngressClone) {
    PacketState fresh;
    begin(*copy, fresh, kIngressClone);
    core_.parse_copy(pipeline_, *copy, fresh);
  }
  std::fill_n(copy->phv, program_.image.metadata_end, 0);
  for (const Field& f : program_.image.field_lists[state.clone_fields].fields) {
    std::copy_n(state.phv + f.cell, cells_for(f.width), copy->phv + f.cell);
  }
  set(copy->phv, m_.instance_type, type);
  copy->priority = priority_of(copy->phv);
  if (found->second.packet_length != 0) copy->truncate = found->second.packet_length;
  core_.replicate(copy, found->second.replicas, m_.egress_rid);
}

bool V1modelPath::egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
                         std::int64_t now_ns) {
  PacketState state;
  state.phv = packet.phv;
  state.set_frame(packet.buffer->frame());
  state.cursor = packet.cursor;
  state.received_length = packet.received_length;
  set(state.phv, m_.egress_port, port);
  set(state.phv, m_.egress_spec, 0);
  set(state.phv, m_.packet_length, packet.received_length);
  set(state.phv, m_.egress_global_timestamp, microseconds(now_ns));
  set(state.phv, m_.enq_timestamp, microseconds(packet.time_ns));
  set(state.phv, m_.enq_qdepth, packet.enq_qdepth);
  // Rounded up, so that it is 0 if and only if the packet did not wait.
  set(state.phv, m_.deq_timedelta, microseconds(now_ns - packet.time_ns + 999));
  set(state.phv, m_.deq_qdepth, waiting);
  if (packet.trace != 0) core_.tell_dequeue(packet, port, waiting, now_ns);
  core_.run_egress(pipeline_, packet, state, now_ns);
  if (core_.assertion_failed(state)) return false;
  packet.truncate = std::min(packet.truncate, state.truncate);
  if (state.clone_session != 0) clone(packet, state, kEgressClone);
  if (state.phv[m_.egress_spec.cell] == core_.options.drop_port) {
    ++core_.ports->stats(port).egress_dropped_packets;
    return false;
  }
  core_.update_checksums(pipeline_, packet, state);
  if (!core_.deparse(pipeline_, packet, state)) return false;
  if (state.recirculate) recirculate(packet, state.again_fields);
  return !state.recirculate;
}

void V1modelPath::recirculate(const Packet& packet, std::uint32_t fields) {
  if (packet.trace != 0) core_.report(packet, "recirculate");
  Packet* round = core_.copy_frame(packet);
  round->trace = packet.trace;
  round->copy = packet.copy;
  if (!core_.next_generation(*round)) return program_.pool.give(round);
  core_.copy_phv(packet, *round);
  round->cursor = fields;
  core_.run_again(round);
}

}  // namespace tiercast::engine
