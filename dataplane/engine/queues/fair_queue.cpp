#include "dataplane/engine/queues/fair_queue.h"

#include <algorithm>

#include "dataplane/engine/packet/ipv4_layout.h"

namespace tiercast::engine {
namespace {

std::uint32_t byte_at(std::span<const std::byte> frame, std::size_t at) {
  return std::to_integer<std::uint32_t>(frame[at]);
}

}  // namespace

std::uint32_t FairQueue::flow_of(std::span<const std::byte> frame) {
  if (!is_ipv4(frame)) return 0;
  // FNV-1a.
  std::uint32_t hash = 2166136261u;
  const auto add = [&](std::size_t from, std::size_t bytes) {
    for (std::size_t i = from; i < std::min(from + bytes, frame.size()); ++i) {
      hash = (hash ^ byte_at(frame, i)) * 16777619u;
    }
  };
  const bool multicast = byte_at(frame, kIpDestination) >> 4 == 0xe;
  add(kIp + 9, 1);  // protocol
  add(kIpSource, 4);
  if (!multicast) add(kIpDestination, 4);
  const std::uint32_t protocol = byte_at(frame, kIp + 9);
  const bool fragment = (byte_at(frame, kIp + 6) & 0x3f) != 0 || byte_at(frame, kIp + 7) != 0;
  if ((protocol == 6 || protocol == 17) && !fragment) {
    add(kIp + std::size_t{4} * (byte_at(frame, kIp) & 15), 4);  // both ports
  }
  return (hash ^ hash >> 16) % kFlows;
}

void FairQueue::append(std::uint32_t flow) {
  flows_[flow].next = kNone;
  flows_[flow].has_turn = true;
  (first_ == kNone ? first_ : flows_[last_].next) = flow;
  last_ = flow;
}

void FairQueue::take_first() {
  flows_[first_].has_turn = false;
  first_ = flows_[first_].next;
  turn_began_ = false;
}

void FairQueue::push(std::uint32_t number, Packet* packet) {
  Flow& flow = flows_[number];
  if (flow.count == 0) flow.deficit = 0;
  if (!flow.has_turn) append(number);
  if (layered_) {
    if (flow.layers == nullptr) flow.layers = std::make_unique<LayerQueue>();
    flow.layers->push(packet);
  } else {
    flow.waiting.push(packet);
  }
  ++flow.count;
  ++packets_;
  flow.bytes += packet->queue_bytes;
}

void FairQueue::remove(Flow& flow, const Packet& packet) {
  --flow.count;
  --packets_;
  flow.bytes -= packet.queue_bytes;
}

// The flow keeps its turn, even if nothing waits there until the other packet comes.
Packet* FairQueue::give_way(std::uint32_t number, const Packet& arriving) {
  Flow& flow = flows_[number];
  Packet* packet = flow.layers == nullptr ? nullptr : flow.layers->take_above(arriving);
  if (packet != nullptr) remove(flow, *packet);
  return packet;
}

Packet* FairQueue::pop() {
  for (;;) {
    const std::uint32_t number = first_;
    Flow& flow = flows_[number];
    if (flow.count == 0) {
      take_first();
      continue;
    }
    if (!turn_began_) {
      flow.deficit += kQuantum;
      turn_began_ = true;
    }
    Packet* packet = flow.layers == nullptr ? flow.waiting.head() : flow.layers->head();
    if (packet->queue_bytes > flow.deficit) {
      take_first();
      append(number);
      continue;
    }
    flow.layers == nullptr ? flow.waiting.pop() : flow.layers->pop();
    remove(flow, *packet);
    flow.deficit -= packet->queue_bytes;
    if (flow.count == 0) take_first();
    return packet;
  }
}

}  // namespace tiercast::engine
