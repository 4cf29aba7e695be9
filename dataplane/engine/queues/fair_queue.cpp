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
  if (frame.size() < kIp + kMinIpBytes || byte_at(frame, 12) != 8 || byte_at(frame, 13) != 0) {
    return 0;
  }
  // FNV-1a.
  std::uint32_t hash = 2166136261u;
  const auto add = [&](std::size_t from, std::size_t bytes) {
    for (std::size_t i = from; i < std::min(from + bytes, frame.size()); ++i) {
      hash = (hash ^ byte_at(frame, i)) * 16777619u;
    }
  };
  const bool multicast = byte_at(frame, kIp + 16) >> 4 == 0xe;
  add(kIp + 9, 1);   // protocol
  add(kIp + 12, 4);  // source
  if (!multicast) add(kIp + 16, 4);
  const std::uint32_t protocol = byte_at(frame, kIp + 9);
  const bool fragment = (byte_at(frame, kIp + 6) & 0x3f) != 0 || byte_at(frame, kIp + 7) != 0;
  if ((protocol == 6 || protocol == 17) && !fragment) {
    add(kIp + std::size_t{4} * (byte_at(frame, kIp) & 15), 4);  // both ports
  }
  return (hash ^ hash >> 16) % kFlows;
}

void FairQueue::append(std::uint32_t flow) {
  flows_[flow].next = kNone;
  (first_ == kNone ? first_ : flows_[last_].next) = flow;
  last_ = flow;
}

void FairQueue::take_first() {
  first_ = flows_[first_].next;
  turn_began_ = false;
}

void FairQueue::push(std::uint32_t number, Packet* packet) {
  Flow& flow = flows_[number];
  if (flow.count == 0) {
    flow.deficit = 0;
    append(number);
  }
  flow.waiting.push(packet);
  ++flow.count;
  ++packets_;
  flow.bytes += packet->queue_bytes;
}

Packet* FairQueue::pop() {
  for (;;) {
    const std::uint32_t number = first_;
    Flow& flow = flows_[number];
    if (!turn_began_) {
      flow.deficit += kQuantum;
      turn_began_ = true;
    }
    Packet* packet = flow.waiting.head();
    if (packet->queue_bytes > flow.deficit) {
      take_first();
      append(number);
      continue;
    }
    flow.waiting.pop();
    --flow.count;
    --packets_;
    flow.bytes -= packet->queue_bytes;
    flow.deficit -= packet->queue_bytes;
    if (flow.count == 0) take_first();
    return packet;
  }
}

}  // namespace tiercast::engine
