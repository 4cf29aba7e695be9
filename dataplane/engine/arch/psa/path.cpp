#include "dataplane/engine/arch/psa/path.h"

#include "dataplane/engine/arch/metadata.h"

namespace tiercast::engine {

namespace {

// psa.p4's numbers of ports that are no interfaces.
constexpr std::uint32_t kPortRecirculate = 0xfffffffa;
constexpr std::uint32_t kPortCpu = 0xfffffffd;

std::uint32_t get(const Cell* phv, const Field& field) {
  return static_cast<std::uint32_t>(phv[field.cell]);
}

}  // namespace

PsaPath::PsaPath(SwitchCore& core, ProgramState& program)
    : core_(core),
      program_(program),
      ingress_(program.pipeline),
      egress_(*program.egress_pipeline),
      m_(static_cast<const PsaFields&>(*program.image.fields)) {}

std::uint32_t PsaPath::shown(std::uint32_t port) const {
  return port == core_.options.cpu_port ? kPortCpu : port;
}

std::uint32_t PsaPath::meant(std::uint32_t port) const {
  return port == kPortCpu ? core_.options.cpu_port : port;
}

void PsaPath::ingress(Packet* packet) { run_ingress(packet, kNormal); }

void PsaPath::again(Packet* packet) { run_ingress(packet, kRecirculate); }

void PsaPath::ingress_pass(Packet& packet, PacketState& state, PathKind kind) {
  core_.begin(ingress_, packet, state);
  const std::uint32_t port = kind == kRecirculate ? kPortRecirculate : shown(packet.ingress_port);
  set(state.phv, m_.ingress_parser.ingress_port, port);
  set(state.phv, m_.ingress_parser.packet_path, kind);
  core_.parse(ingress_, packet, state, core_.clock_ns);
  set(state.phv, m_.ingress.ingress_port, port);
  set(state.phv, m_.ingress.packet_path, kind);
  set(state.phv, m_.ingress.ingress_timestamp, microseconds(core_.clock_ns));
  set(state.phv, m_.ingress.parser_error, state.parser_error());
  state.error = 0;
  set(state.phv, m_.ingress_output.class_of_service, 0);
  set(state.phv, m_.ingress_output.clone, 0);
  set(state.phv, m_.ingress_output.drop, 1);
  set(state.phv, m_.ingress_output.resubmit, 0);
  set(state.phv, m_.ingress_output.multicast_group, 0);
  core_.run_ingress(ingress_, packet, state);
}

void PsaPath::run_ingress(Packet* packet, PathKind kind) {
  PacketState state;
  for (;;) {
    ingress_pass(*packet, state, kind);
    if (core_.assertion_failed(state)) return program_.pool.give(packet);
    core_.gather_digest(state);
    // A clone is the packet as received, whether it is dropped or not.
    if (get(state.phv, m_.ingress_output.clone) != 0) {
      clone(*packet, get(state.phv, m_.ingress_output.clone_session_id), kCloneI2e, 0);
    }
    if (get(state.phv, m_.ingress_output.drop) != 0) {
      ++core_.stats.ingress_dropped_packets;
      return program_.pool.give(packet);
    }
    if (get(state.phv, m_.ingress_output.resubmit) == 0) break;
    if (!core_.next_generation(*packet)) {
      return core_.drop(packet, "ingress", "resubmitted too often");
    }
    if (packet->trace != 0) core_.report(*packet, "resubmit");
    kind = kResubmit;
  }
  forward(packet, state);
}

void PsaPath::forward(Packet* packet, PacketState& state) {
  core_.update_checksums(ingress_, *packet, state);
  if (!core_.deparse(ingress_, *packet, state)) {
    return core_.drop(packet, "ingress", "the frame is too long");
  }
  packet->label = core_.label_of_frame(ingress_, *packet);
  const std::uint32_t service = get(state.phv, m_.ingress_output.class_of_service);
  const std::uint32_t group = get(state.phv, m_.ingress_output.multicast_group);
  if (group == 0) {
    const std::uint32_t port = meant(get(state.phv, m_.ingress_output.egress_port));
    return send(packet, port, 0, kNormalUnicast, service);
  }
  const auto found = program_.groups.find(group);
  if (found == program_.groups.end()) {
    return core_.drop(packet, "ingress", "no such multicast group");
  }
  if (packet->trace != 0) core_.tell_replicate(*packet, group, found->second);
  replicate(packet, found->second, kNormalMulticast, service);
}

void PsaPath::clone(const Packet& original, std::uint32_t session, PathKind kind,
                    std::uint32_t label) {
  const auto found = program_.sessions.find(session);
  if (found == program_.sessions.end()) return;
  Packet* copy = core_.copy_frame(original);
  copy->received_length = original.received_length;
  copy->label = label;
  if (original.trace != 0) core_.tracer.number_copy(original, *copy);
  if (!core_.next_generation(*copy)) return core_.drop(copy, "clone", "cloned too often");
  if (original.trace != 0) core_.tell_clone(original, *copy, session, found->second);
  const std::uint32_t length = found->second.packet_length;
  if (length != 0 && length < copy->buffer->size) {
    program_.pool.unshare(*copy);
    copy->buffer->size = length;
  }
  replicate(copy, found->second.replicas, kind, 0);
}

void PsaPath::replicate(Packet* packet, const std::vector<Replica>& replicas, PathKind kind,
                        std::uint32_t service) {
  for (std::size_t n = 0; n < replicas.size(); ++n) {
    Packet* replica = packet;
    if (n + 1 < replicas.size()) {  // the last replica is the packet itself
      replica = core_.copy_frame(*packet);
      replica->received_length = packet->received_length;
      replica->label = packet->label;
      if (packet->trace != 0) core_.tracer.number_copy(*packet, *replica);
    }
    send(replica, replicas[n].port, replicas[n].instance, kind, service);
  }
  if (replicas.empty()) core_.drop(packet, "ingress", "no replicas");
}

void PsaPath::send(Packet* packet, std::uint32_t port, std::uint32_t instance, PathKind kind,
                   std::uint32_t service) {
  program_.pool.lend_vector(*packet);
  Cell* const phv = packet->phv;
  set(phv, m_.egress_parser.packet_path, kind);
  set(phv, m_.egress.instance, instance);
  set(phv, m_.egress.class_of_service, service);
  packet->priority = static_cast<std::uint8_t>(service);
  if (port != kPortRecirculate) {
    core_.enqueue(port, packet, packet->buffer->size);
    return core_.mirror_depth(port);
  }
  // This port has no queue.
  if (!core_.next_generation(*packet)) {
    return core_.drop(packet, "egress", "recirculated too often");
  }
  if (!run_egress(kPortRecirculate, *packet, core_.clock_ns)) return program_.pool.give(packet);
  if (packet->trace != 0) core_.report(*packet, "recirculate");
  core_.run_again(packet);
}

bool PsaPath::egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
                     std::int64_t now_ns) {
  if (packet.trace != 0) core_.tell_dequeue(packet, port, waiting, now_ns);
  core_.mirror_depth(port);
  return run_egress(port, packet, now_ns);
}

bool PsaPath::run_egress(std::uint32_t port, Packet& packet, std::int64_t now_ns) {
  const Cell* const before = packet.phv;
  const std::uint32_t kind = get(before, m_.egress_parser.packet_path);
  const std::uint32_t instance = get(before, m_.egress.instance);
  const std::uint32_t service = get(before, m_.egress.class_of_service);
  const std::uint32_t received_length = packet.received_length;
  PacketState state;
  core_.begin(egress_, packet, state);
  packet.received_length = state.received_length = received_length;
  set(state.phv, m_.egress_parser.egress_port, shown(port));
  set(state.phv, m_.egress_parser.packet_path, kind);
  core_.parse(egress_, packet, state, now_ns);
  set(state.phv, m_.egress.class_of_service, service);
  set(state.phv, m_.egress.egress_port, shown(port));
  set(state.phv, m_.egress.packet_path, kind);
  set(state.phv, m_.egress.instance, instance);
  set(state.phv, m_.egress.egress_timestamp, microseconds(now_ns));
  set(state.phv, m_.egress.parser_error, state.parser_error());
  state.error = 0;
  set(state.phv, m_.egress_output.clone, 0);
  set(state.phv, m_.egress_output.drop, 0);
  if (!state.exited) core_.run_egress(egress_, packet, state, now_ns);
  if (core_.assertion_failed(state)) return false;
  core_.gather_digest(state);
  set(state.phv, m_.egress_deparser.egress_port, shown(port));
  const bool clones = get(state.phv, m_.egress_output.clone) != 0;
  const bool drops = get(state.phv, m_.egress_output.drop) != 0;
  if (drops) {
    ++(port == kPortRecirculate ? core_.stats.ingress_dropped_packets
                                : core_.ports->stats(port).egress_dropped_packets);
    if (!clones) return false;
  }
  core_.update_checksums(egress_, packet, state);
  if (!core_.deparse(egress_, packet, state)) return false;
  if (clones) {
    clone(packet, get(state.phv, m_.egress_output.clone_session_id), kCloneE2e,
          core_.label_of_frame(egress_, packet));
  }
  return !drops;
}

}  // namespace tiercast::engine
