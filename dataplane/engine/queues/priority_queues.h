// Two queues of a port: packets with a priority (v1model: standard_metadata.priority; PSA:
// class_of_service) are served before those with priority 0, as by bmv2's priority queues. While
// both queues hold packets, the lower one may be given a share of the link's bytes, so that it does
// not starve: weighted round robin, as RFC 9332, 4.2.2 has it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/port.h"
#include "dataplane/engine/queues/queue_discipline.h"

namespace tiercast::engine {

class PriorityQueues final : public QueueDiscipline {
 public:
  static constexpr std::uint32_t kLow = 0, kHigh = 1;

  // What is wrong with a port's settings; empty: nothing. fair: it has a queue for each flow, too.
  static std::string wrong(const std::optional<PriorityConfig>& config, bool fair);

  explicit PriorityQueues(const PriorityConfig& config)
      : low_per_high_(config.low_share / (1 - config.low_share)) {}

  // All priorities above 0 share the higher queue.
  std::uint32_t queue_of(const Packet& packet) const override {
    return packet.priority == 0 ? kLow : kHigh;
  }
  // Of both queues: they share the port's memory.
  Length limited(std::uint32_t queue) const override;
  std::uint32_t depth(std::uint32_t queue) const override { return queues_[queue].length.packets; }
  bool empty() const override {
    return queues_[kLow].waiting.empty() && queues_[kHigh].waiting.empty();
  }
  void push(std::uint32_t queue, Packet* packet) override;
  Packet* pop() override;

 private:
  struct Queue {
    PacketList waiting;
    Length length;
  };
  std::uint32_t next() const;

  std::array<Queue, 2> queues_;
  double low_per_high_;    // bytes of the lower queue for each of the higher one
  double low_credit_ = 0;  // bytes that the lower queue may send while the higher one waits
};

}  // namespace tiercast::engine
