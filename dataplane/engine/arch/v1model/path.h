// A packet's path through v1model: parser, checksum verification, ingress, replication, queue,
// egress, checksum update, deparser. A program may also ask for clones, resubmission and
// recirculation.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/arch/metadata.h"
#include "dataplane/engine/arch/v1model/fields.h"
#include "dataplane/engine/run/switch_core.h"

namespace tiercast::engine {

class V1modelPath final : public PacketPath {
 public:
  V1modelPath(SwitchCore& core, ProgramState& program);

  void ingress(Packet* packet) override;
  void again(Packet* packet) override;
  bool egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
              std::int64_t now_ns) override;
  void deliver(std::uint32_t port, const Packet& packet) override { core_.deliver(port, packet); }
  void lost(std::uint32_t port, const Packet& packet, TrafficManager::Loss why) override {
    if (packet.trace != 0) core_.tell_lost(packet, port, why);
  }
  void marked(std::uint32_t port, const Packet& packet, std::int64_t now_ns) override {
    if (packet.trace != 0) core_.tell_marked(packet, port, now_ns);
  }
  void arrive(std::uint32_t, Packet* packet, std::int64_t) override { ingress(packet); }

 private:
  // The values of standard_metadata.instance_type, numbered as bmv2's simple_switch does.
  enum InstanceType : std::uint32_t {
    kNormal = 0,
    kIngressClone = 1,
    kEgressClone = 2,
    kRecirculated = 4,
    kReplicated = 5,
    kResubmitted = 6
  };

  // kept_list: the fields of kept_ that the packet keeps from its previous pass.
  void run_ingress(Packet* packet, InstanceType type, std::uint32_t kept_list);
  void begin(Packet& packet, PacketState& state, InstanceType type);
  void clone(const Packet& original, const PacketState& state, InstanceType type);
  void recirculate(const Packet& packet, std::uint32_t fields);
  // That of a program without the field is 0.
  std::uint8_t priority_of(const Cell* phv) const {
    return m_.priority.cell == 0 ? 0 : static_cast<std::uint8_t>(phv[m_.priority.cell]);
  }
  void keep_fields(std::uint32_t list, const Cell* phv);
  void restore_fields(std::uint32_t list, Cell* phv) const;

  // V1modelFields, as packets need them.
  struct Metadata {
    explicit Metadata(const V1modelFields& m)
        : ingress_port(m.ingress_port),
          egress_spec(m.egress_spec),
          egress_port(m.egress_port),
          instance_type(m.instance_type),
          packet_length(m.packet_length),
          enq_timestamp(m.enq_timestamp),
          enq_qdepth(m.enq_qdepth),
          deq_timedelta(m.deq_timedelta),
          deq_qdepth(m.deq_qdepth),
          ingress_global_timestamp(m.ingress_global_timestamp),
          egress_global_timestamp(m.egress_global_timestamp),
          mcast_grp(m.mcast_grp),
          egress_rid(m.egress_rid),
          priority(m.priority),
          parser_error(m.parser_error) {}
    MetadataField ingress_port, egress_spec, egress_port, instance_type, packet_length;
    MetadataField enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth;
    MetadataField ingress_global_timestamp, egress_global_timestamp;
    MetadataField mcast_grp, egress_rid, priority, parser_error;
  };

  SwitchCore& core_;
  ProgramState& program_;
  Pipeline& pipeline_;
  const Metadata m_;
  std::vector<Cell> kept_;  // values of the fields that survive a resubmission or recirculation
};

}  // namespace tiercast::engine
