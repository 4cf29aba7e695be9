// The waiting packets of one flow, first in, first out. Where they exceed its limits, the packet of
// the highest layer that has waited longest gives way to one of a lower layer: priority dropping
// (Bajaj, Breslau and Shenker, "Uniform versus Priority Dropping for Layered Video", SIGCOMM 1998).
// So who subscribes to more layers than the flow's share of the link carries loses the highest ones
// alone, and nobody else behind the link loses a lower one for it.
//
// A layer is an IPv4 group: of two packets of one source, that to the higher group is of the higher
// layer. Packets that are not multicast never give way, and nothing gives way to them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/engine/packet/packet_pool.h"

namespace tiercast::engine {

class LayerQueue {
 public:
  void push(Packet* packet);
  // The packet that came first; there must be one.
  Packet* head() const { return layers_[first()].waiting.head(); }
  Packet* pop() { return layers_[first()].waiting.pop(); }
  // Takes out the packet that gives way to one that arrives. Null: none of a higher layer waits.
  Packet* take_above(const Packet& arriving);

 private:
  // Place 0 has what is no layer, and layers beyond the others' number, which never give way.
  static constexpr std::size_t kPlaces = 16;
  struct Layer {
    std::uint64_t source_and_group = 0;
    PacketList waiting;
  };

  std::size_t place_of(std::uint64_t source_and_group) const;
  std::size_t first() const;

  std::array<Layer, kPlaces> layers_;
  std::uint32_t next_order_ = 0;
};

}  // namespace tiercast::engine
