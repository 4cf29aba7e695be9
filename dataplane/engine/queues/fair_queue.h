// One queue for each flow, served in turn: deficit round robin (Shreedhar and Varghese,
// SIGCOMM 1995). Every flow that waits gets the same share of the link in bytes.
//
// A flow is what has the same IPv4 source, destination, protocol and ports in the frame as
// received. Of multicast the destination does not count, so that the layers of a session are one
// flow. A hash identifies a flow: two of them share a queue with probability 1/kFlows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/packet/packet_pool.h"

namespace tiercast::engine {

class FairQueue {
 public:
  static constexpr std::uint32_t kFlows = 1024;
  // Bytes a turn. Less than a packet, so that no flow sends several in a row while others wait: a
  // pair's spacing then shows the share (PLM), and a large packet costs some turns.
  static constexpr std::uint32_t kQuantum = 256;

  FairQueue() : flows_(kFlows) {}

  // 0 .. kFlows - 1; 0 for what is not IPv4.
  static std::uint32_t flow_of(std::span<const std::byte> frame);

  bool empty() const { return first_ == kNone; }
  std::uint32_t packets(std::uint32_t flow) const { return flows_[flow].count; }
  std::uint64_t bytes(std::uint32_t flow) const { return flows_[flow].bytes; }
  // Counts packet.queue_bytes.
  void push(std::uint32_t flow, Packet* packet);
  Packet* pop();  // there must be one

 private:
  static constexpr std::uint32_t kNone = kFlows;
  struct Flow {
    PacketList waiting;
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t deficit = 0;  // bytes that it may still send in its turn
    std::uint32_t next = kNone;
  };

  void append(std::uint32_t flow);
  void take_first();

  std::vector<Flow> flows_;
  // Those with packets, in the order of their turns.
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
  bool turn_began_ = false;  // of the first
};

}  // namespace tiercast::engine
