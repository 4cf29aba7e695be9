// One queue for each flow, served in turn by deficit round robin (Shreedhar and Varghese, SIGCOMM
// 1995). All waiting flows get the same share of the link in bytes.
//
// A flow is the set of packets with the same IPv4 source, destination, protocol and ports in the
// frame as received. The destination of multicast packets does not count, so that all layers of a
// session are one flow. A hash identifies a flow, so two flows share a queue with probability
// 1/kFlows.
//
// A flow that is `layered` loses its highest layers first (layer_queue.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/layer_queue.h"
#include "dataplane/engine/queues/queue_discipline.h"

namespace tiercast::engine {

class FairQueue final : public QueueDiscipline {
 public:
  static constexpr std::uint32_t kFlows = 1024;
  // Bytes that a flow may send per turn. This is less than a packet, so that no flow sends several
  // packets in a row while others wait. The spacing of a packet pair then shows the flow's share
  // (PLM), and a large packet takes several turns.
  static constexpr std::uint32_t kQuantum = 256;

  explicit FairQueue(bool layered) : layered_(layered), flows_(kFlows) {}

  // 0 to kFlows - 1. 0 for a frame that is not IPv4.
  static std::uint32_t flow_of(std::span<const std::byte> frame);

  std::uint32_t queue_of(const Packet& packet) const override {
    return flow_of(packet.buffer->frame());
  }
  // Of the flow alone.
  Length limited(std::uint32_t flow) const override {
    return {flows_[flow].count, flows_[flow].bytes};
  }
  // Of all flows.
  std::uint32_t depth(std::uint32_t) const override { return packets_; }
  bool empty() const override { return packets_ == 0; }
  void push(std::uint32_t flow, Packet* packet) override;
  Packet* pop() override;
  Packet* give_way(std::uint32_t flow, const Packet& arriving) override;

 private:
  static constexpr std::uint32_t kNone = kFlows;
  struct Flow {
    PacketList waiting;
    std::unique_ptr<LayerQueue> layers;  // has the packets instead, from the first one on
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t deficit = 0;  // bytes that the flow may still send in its turn
    std::uint32_t next = kNone;
    bool has_turn = false;  // whether it is linked below
  };

  void append(std::uint32_t flow);
  void remove(Flow& flow, const Packet& packet);
  void take_first();

  bool layered_;
  std::vector<Flow> flows_;
  // The flows with packets, and some that had, linked in the order of their turns.
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
  std::uint32_t packets_ = 0;
  bool turn_began_ = false;  // whether the first flow's turn has begun
};

}  // namespace tiercast::engine
