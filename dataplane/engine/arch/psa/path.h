// A packet's path through PSA: ingress parser, ingress, ingress deparser, replication, queue,
// egress parser, egress, egress deparser. A queue holds frames, as the ingress deparser made them.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/arch/psa/fields.h"
#include "dataplane/engine/run/switch_core.h"

namespace tiercast::engine {

class PsaPath final : public PacketPath {
 public:
  PsaPath(SwitchCore& core, ProgramState& program);

  void ingress(Packet* packet) override;
  void again(Packet* packet) override;
  bool egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
              std::int64_t now_ns) override;
  void deliver(std::uint32_t port, const Packet& packet) override { core_.deliver(port, packet); }
  void lost(std::uint32_t port, const Packet& packet, TrafficManager::Loss why) override {
    core_.mirror_depth(port);
    if (packet.trace != 0) core_.tell_lost(packet, port, why);
  }
  void marked(std::uint32_t port, const Packet& packet, std::int64_t now_ns) override {
    if (packet.trace != 0) core_.tell_marked(packet, port, now_ns);
  }
  void arrive(std::uint32_t, Packet* packet, std::int64_t) override { ingress(packet); }

 private:
  // PSA_PacketPath_t.
  enum PathKind : std::uint32_t {
    kNormal,
    kNormalUnicast,
    kNormalMulticast,
    kCloneI2e,
    kCloneE2e,
    kResubmit,
    kRecirculate
  };
  void run_ingress(Packet* packet, PathKind kind);
  // Runs ingress's parser and control. The output metadata are then in the packet vector.
  void ingress_pass(Packet& packet, PacketState& state, PathKind kind);
  // Sends a packet as ingress says, and takes ownership of it.
  void forward(Packet* packet, PacketState& state);
  // Sends copies of the frame as it is now. Nothing if there is no such session.
  void clone(const Packet& original, std::uint32_t session, PathKind kind, std::uint32_t label);
  // Both take ownership of the packet. service: its class of service.
  void replicate(Packet* packet, const std::vector<Replica>& replicas, PathKind kind,
                 std::uint32_t service);
  void send(Packet* packet, std::uint32_t port, std::uint32_t instance, PathKind kind,
            std::uint32_t service);
  // Runs egress on a packet that `port` is to send. False if it is dropped.
  bool run_egress(std::uint32_t port, Packet& packet, std::int64_t now_ns);
  // The numbers that a program sees and uses for ports.
  std::uint32_t shown(std::uint32_t port) const;
  std::uint32_t meant(std::uint32_t port) const;

  SwitchCore& core_;
  ProgramState& program_;
  Pipeline& ingress_;
  Pipeline& egress_;
  const PsaFields& m_;
};

}  // namespace tiercast::engine
