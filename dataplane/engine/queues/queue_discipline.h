// The queues of a port that has several, and the order in which their packets are served.
#pragma once

#include <cstdint>

#include "dataplane/engine/packet/packet_pool.h"

namespace tiercast::engine {

class QueueDiscipline {
 public:
  struct Length {
    std::uint32_t packets = 0;
    std::uint64_t bytes = 0;
  };

  virtual ~QueueDiscipline() = default;
  // The queue in which a packet waits. It stays the same while the packet waits.
  virtual std::uint32_t queue_of(const Packet& packet) const = 0;
  // What the port's limits are compared with when a packet comes to this queue.
  virtual Length limited(std::uint32_t queue) const = 0;
  // The packets that a program is told to wait there.
  virtual std::uint32_t depth(std::uint32_t queue) const = 0;
  virtual bool empty() const = 0;
  // Adds packet.queue_bytes to the queue's bytes.
  virtual void push(std::uint32_t queue, Packet* packet) = 0;
  // The packet to serve next; not all queues may be empty.
  virtual Packet* pop() = 0;
  // Takes out a packet that gives way to one that arrives at its queue, which is full. Null: none.
  virtual Packet* give_way(std::uint32_t, const Packet&) { return nullptr; }
};

}  // namespace tiercast::engine
