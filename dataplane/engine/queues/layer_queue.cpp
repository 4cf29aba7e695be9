#include "dataplane/engine/queues/layer_queue.h"

#include "dataplane/engine/packet/ipv4_layout.h"

namespace tiercast::engine {
namespace {

// The IPv4 source, and below it the group; 0 if the frame is not IPv4 multicast.
std::uint64_t source_and_group_of(std::span<const std::byte> frame) {
  if (!is_ipv4(frame)) return 0;
  const std::uint64_t group = four_bytes_at(frame, kIpDestination);
  if (group >> 28 != 0xe) return 0;
  return std::uint64_t{four_bytes_at(frame, kIpSource)} << 32 | group;
}

}  // namespace

// A layer's own place, or a free one.
std::size_t LayerQueue::place_of(std::uint64_t source_and_group) const {
  if (source_and_group == 0) return 0;
  std::size_t free = 0;
  for (std::size_t place = kPlaces - 1; place > 0; --place) {
    if (layers_[place].waiting.empty()) {
      free = place;
    } else if (layers_[place].source_and_group == source_and_group) {
      return place;
    }
  }
  return free;
}

std::size_t LayerQueue::first() const {
  std::size_t first = kPlaces;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    if (layers_[place].waiting.empty()) continue;
    // Serial numbers: they wrap.
    if (first == kPlaces || static_cast<std::int32_t>(layers_[place].waiting.head()->order -
                                                      layers_[first].waiting.head()->order) < 0) {
      first = place;
    }
  }
  return first;
}

void LayerQueue::push(Packet* packet) {
  const std::uint64_t source_and_group = source_and_group_of(packet->buffer->frame());
  Layer& layer = layers_[place_of(source_and_group)];
  layer.source_and_group = source_and_group;
  packet->order = next_order_++;
  layer.waiting.push(packet);
}

Packet* LayerQueue::take_above(const Packet& arriving) {
  const std::uint64_t own = source_and_group_of(arriving.buffer->frame());
  if (own == 0) return nullptr;
  Layer* highest = nullptr;
  for (std::size_t place = 1; place < kPlaces; ++place) {
    Layer& layer = layers_[place];
    if (layer.waiting.empty() || layer.source_and_group >> 32 != own >> 32) continue;
    if (layer.source_and_group > (highest == nullptr ? own : highest->source_and_group)) {
      highest = &layer;
    }
  }
  return highest == nullptr ? nullptr : highest->waiting.pop();
}

}  // namespace tiercast::engine
