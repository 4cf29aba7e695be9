#include "dataplane/engine/queues/traffic_manager.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dataplane/engine/packet/ipv4_ecn.h"
#include "dataplane/engine/packet/random.h"
#include "dataplane/engine/queues/fair_queue.h"
#include "dataplane/engine/queues/priority_queues.h"

namespace tiercast::engine {

namespace {
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
}

TrafficManager::TrafficManager(std::uint32_t ports, PacketPool& pool, Client& client,
                               std::uint64_t seed)
    : pool_(pool), client_(client), seed_(seed), ports_(ports), soon_(ports) {
  active_.reserve(ports);
  due_.reserve(ports);
}

TrafficManager::Port& TrafficManager::make_port(std::unique_ptr<Port>& at) {
  at = std::make_unique<Port>();
  return *at;
}

std::int64_t TrafficManager::Port::next_event() const {
  std::int64_t next = wire.next_event();
  if (in_service != nullptr) next = std::min(next, free_ns);
  next = std::min(next, arriving.next_event());
  if (impaired) [[unlikely]] {
    next = std::min({next, wire.next_held(), arriving.next_held()});
  }
  return next;
}

void TrafficManager::move_in_heap(std::uint32_t index, std::size_t place) {
  while (place > 0 && earlier(index, due_[(place - 1) / 2])) {
    due_[place] = due_[(place - 1) / 2];
    port_at(due_[place]).place = static_cast<std::uint32_t>(place);
    place = (place - 1) / 2;
  }
  for (std::size_t child; (child = 2 * place + 1) < due_.size(); place = child) {
    if (child + 1 < due_.size() && earlier(due_[child + 1], due_[child])) ++child;
    if (!earlier(due_[child], index)) break;
    due_[place] = due_[child];
    port_at(due_[place]).place = static_cast<std::uint32_t>(place);
  }
  due_[place] = index;
  port_at(index).place = static_cast<std::uint32_t>(place);
}

void TrafficManager::unschedule(std::uint32_t index) {
  Port& port = port_at(index);
  port.due_ns = kNever;
  if (port.is_soon) {
    port.is_soon = false;
    soon_.remove(index);
    return;
  }
  const std::uint32_t last = due_.back();
  due_.pop_back();
  if (last != index) move_in_heap(last, port.place);
}

void TrafficManager::schedule(std::uint32_t index) {
  Port& port = port_at(index);
  const std::int64_t next = port.next_event();
  if (next == port.due_ns) return;
  const bool in_heap = port.due_ns != kNever && !port.is_soon;
  if (in_heap && next != kNever) {
    port.due_ns = next;
    return move_in_heap(index, port.place);
  }
  if (port.due_ns != kNever) unschedule(index);
  if (next == kNever) return;
  port.due_ns = next;
  if (soon_.empty()) soon_ns_ = next;
  if (next == soon_ns_) {
    port.is_soon = true;
    soon_.add(index);
    return;
  }
  due_.push_back(index);
  move_in_heap(index, due_.size() - 1);
}

std::uint32_t TrafficManager::next_port() const {
  if (soon_.empty()) return due_[0];
  const std::uint32_t soon = soon_.first();
  return due_.empty() || earlier(soon, due_[0]) ? soon : due_[0];
}

void TrafficManager::set(std::uint32_t index, const PortConfig& config, std::int64_t now_ns) {
  Port& port = port_at(index);
  if (!port.exists) {
    port.exists = true;
    active_.insert(std::lower_bound(active_.begin(), active_.end(), index), index);
  }
  const auto rate = static_cast<std::uint64_t>(std::llround(config.rate_bps));
  if (port.in_service != nullptr && rate != port.rate) {
    // The rest of the service, in bit * 10^9, takes place at the new rate.
    const auto left_ns =
        static_cast<std::uint64_t>(std::max<std::int64_t>(port.free_ns - now_ns, 0));
    const UnsignedWord work = UnsignedWord{left_ns} * port.rate + port.remainder;
    port.free_ns = now_ns;
    port.remainder = 0;
    if (rate != 0) {
      port.free_ns += static_cast<std::int64_t>(work / rate);
      port.remainder = static_cast<std::uint64_t>(work % rate);
    }
  } else if (rate != port.rate) {
    port.remainder = 0;
  }
  port.rate = rate;
  const bool other_queues = config.fair_queueing != port.config.fair_queueing ||
                            config.layered != port.config.layered ||
                            config.priority != port.config.priority;
  port.config = config;
  if (other_queues) set_queues(port);
  set_red(index, config.red);
  set_wires(index, now_ns);
  port.is_direct =
      port.rate == 0 && port.queues == nullptr && port.red == nullptr && !port.impaired;
  schedule(index);
}

std::uint64_t TrafficManager::seed_of(std::uint32_t index) const {
  std::uint64_t state = seed_;
  state = next_random(state) ^ index;
  return next_random(state);
}

void TrafficManager::set_wires(std::uint32_t index, std::int64_t now_ns) {
  constexpr std::uint64_t kWire = 1, kArriving = 2;  // RED has the seed itself
  Port& port = port_at(index);
  port.wire.set(port.config.wire, seed_of(index) + kWire);
  port.arriving.set(port.config.rx_wire, seed_of(index) + kArriving);
  // Those that are on their way must not be overtaken by frames that have no delay.
  port.delays_arrivals =
      port.config.rx_delay_ns > 0 || port.arriving.is_impaired() || !port.arriving.is_empty();
  port.impaired = port.wire.is_impaired() || port.arriving.is_impaired();
  if (port.wire.is_down()) {
    lose_all(index);
    port.free_ns = now_ns;
    port.remainder = 0;
  }
  if (port.arriving.is_down()) {
    while (Packet* packet = port.arriving.pop_any()) lose_arriving(index, packet);
  }
}

// The link has gone down.
void TrafficManager::lose_all(std::uint32_t index) {
  Port& port = port_at(index);
  while (!port.none_waits()) {
    Packet* packet = port.take_waiting();
    take_from_queue(port, *packet);
    lose_unserved(index, packet);
  }
  while (Packet* packet = port.wire.pop_any()) lose_on_wire(index, packet);
  if (port.in_service != nullptr) lose_on_wire(index, std::exchange(port.in_service, nullptr));
}

void TrafficManager::lose_on_wire(std::uint32_t index, Packet* packet) {
  ++port_at(index).stats.lost_packets;
  ++port_at(index).labels.of(packet->label).lost;
  client_.lost(index, *packet, Loss::kOnWire);
  pool_.give(packet);
}

void TrafficManager::lose_arriving(std::uint32_t index, Packet* packet) {
  ++port_at(index).stats.rx_lost_packets;
  client_.lost(index, *packet, Loss::kOnArrivingWire);
  pool_.give(packet);
}

// The link is down.
void TrafficManager::lose_unserved(std::uint32_t index, Packet* packet) {
  ++port_at(index).stats.down_dropped_packets;
  ++port_at(index).labels.of(packet->label).down_dropped;
  client_.lost(index, *packet, Loss::kDown);
  pool_.give(packet);
}

// Waiting packets move over in the order in which they would have left.
void TrafficManager::set_queues(Port& port) {
  PacketList waiting;
  while (!port.none_waits()) waiting.push(port.take_waiting());
  port.queues.reset();
  if (port.config.fair_queueing) {
    port.queues = std::make_unique<FairQueue>(port.config.layered);
  } else if (port.config.priority) {
    port.queues = std::make_unique<PriorityQueues>(*port.config.priority);
  } else {
    port.waiting = waiting;
    return;
  }
  port.waiting = {};
  while (!waiting.empty()) {
    Packet* packet = waiting.pop();
    port.queues->push(port.queues->queue_of(*packet), packet);
  }
}

// The average outlives a change of the parameters, and the decisions on what waits stand.
void TrafficManager::set_red(std::uint32_t index, const std::optional<RedConfig>& config) {
  Port& port = port_at(index);
  if (!config) {
    port.red.reset();
  } else if (port.red != nullptr) {
    port.red->set(*config);
  } else {
    port.red = std::make_unique<Red>(*config, seed_of(index));
  }
}

bool TrafficManager::pass_red(Port& port, Packet& packet, bool idle, std::int64_t now_ns) {
  packet.is_marked = false;
  if (port.rate == 0) return true;
  const std::int64_t idle_ns = idle ? std::max<std::int64_t>(now_ns - port.free_ns, 0) : Red::kBusy;
  const Red::Verdict verdict =
      port.red->arrive(port.stats.queue_packets, idle_ns, static_cast<double>(port.rate));
  if (verdict == Red::Verdict::kPass) return true;
  packet.is_marked = port.red->marks(verdict) && is_ecn_capable(packet.buffer->frame());
  if (!packet.is_marked && verdict == Red::Verdict::kForced) port.red->forced_drop();
  return packet.is_marked;
}

// Only now is the frame what it will be, and it may be shared with copies on other ports.
void TrafficManager::mark(std::uint32_t index, Packet& packet, std::int64_t now_ns) {
  packet.is_marked = false;
  // The program may have made it another packet, and a mark from before is none of this port's.
  if (!is_ecn_capable(packet.buffer->frame()) || has_ce(packet.buffer->frame())) return;
  pool_.unshare(packet);
  mark_congestion(packet.buffer->frame());
  ++port_at(index).stats.marked_packets;
  ++port_at(index).labels.of(packet.label).marked;
  client_.marked(index, packet, now_ns);
}

void TrafficManager::remove(std::uint32_t index) {
  Port& port = port_at(index);
  while (!port.none_waits()) {
    Packet* packet = port.take_waiting();
    ++port.labels.of(packet->label).dropped;
    pool_.give(packet);
  }
  while (Packet* packet = port.wire.pop_any()) pool_.give(packet);
  while (Packet* packet = port.arriving.pop_any()) pool_.give(packet);
  if (port.in_service != nullptr) pool_.give(port.in_service);
  port.waiting = {};
  port.in_service = nullptr;
  schedule(index);
  LabelTable labels = std::move(port.labels);
  port = Port{};
  port.labels = std::move(labels);
  std::erase(active_, index);
}

std::vector<std::uint32_t> TrafficManager::ports() const { return active_; }

std::uint32_t TrafficManager::bytes_on_link(const Port& port, std::uint32_t frame_bytes) const {
  return static_cast<std::uint32_t>(
      std::max<std::int64_t>(std::int64_t{frame_bytes} + port.config.overhead_bytes, 0));
}

bool TrafficManager::is_full(const Port& port, const QueueDiscipline::Length& length,
                             const Packet& arriving) {
  const PortConfig& c = port.config;
  return (c.queue_packets != 0 && length.packets >= c.queue_packets) ||
         (c.queue_bytes != 0 && length.bytes + arriving.queue_bytes > c.queue_bytes);
}

bool TrafficManager::make_room(std::uint32_t index, std::uint32_t queue, const Packet& arriving) {
  Port& port = port_at(index);
  if (!port.config.layered || is_full(port, {}, arriving)) return false;
  do {
    Packet* packet = port.queues->give_way(queue, arriving);
    if (packet == nullptr) return false;
    take_from_queue(port, *packet);
    --port.stats.enqueued_packets;
    const auto frame_bytes = std::int64_t{packet->queue_bytes} - port.config.overhead_bytes;
    lose_in_queue(index, packet, static_cast<std::uint32_t>(frame_bytes));
  } while (is_full(port, port.queues->limited(queue), arriving));
  return true;
}

void TrafficManager::lose_in_queue(std::uint32_t index, Packet* packet, std::uint32_t frame_bytes) {
  Port& port = port_at(index);
  ++port.labels.of(packet->label).dropped;
  ++port.stats.dropped_packets;
  port.stats.dropped_bytes += frame_bytes;
  client_.lost(index, *packet, Loss::kQueueFull);
  pool_.give(packet);
}

void TrafficManager::enqueue(std::uint32_t index, Packet* packet, std::uint32_t frame_bytes,
                             std::int64_t now_ns) {
  Port& port = port_at(index);
  if (port.is_direct && port.in_service == nullptr && port.waiting.empty() && !port.in_egress) {
    return pass(index, port, packet, frame_bytes, now_ns);
  }
  PortStats& stats = port.stats;
  packet->time_ns = now_ns;
  packet->queue_bytes = bytes_on_link(port, frame_bytes);
  packet->enq_qdepth = stats.queue_packets;
  ++port.labels.of(packet->label).entered;
  if (port.impaired && port.wire.is_down()) [[unlikely]] {
    return lose_unserved(index, packet);
  }
  const bool idle = port.in_service == nullptr && port.none_waits() && !port.in_egress;
  std::uint32_t queue = 0;
  QueueDiscipline::Length limited{stats.queue_packets, stats.queue_bytes};
  if (port.queues != nullptr) [[unlikely]] {
    queue = port.queues->queue_of(*packet);
    packet->enq_qdepth = port.queues->depth(queue);
    limited = port.queues->limited(queue);
  }
  const bool passes = port.red == nullptr || pass_red(port, *packet, idle, now_ns);
  if (!idle) {
    if (is_full(port, limited, *packet) && !(passes && make_room(index, queue, *packet))) {
      if (port.red != nullptr) port.red->forced_drop();
      return lose_in_queue(index, packet, frame_bytes);
    }
    if (!passes) {
      ++port.labels.of(packet->label).early_dropped;
      ++stats.early_dropped_packets;
      client_.lost(index, *packet, Loss::kEarly);
      pool_.give(packet);
      return;
    }
    stats.queue_bytes += packet->queue_bytes;
    ++stats.queue_packets;
    stats.max_queue_packets = std::max(stats.max_queue_packets, stats.queue_packets);
    stats.max_queue_bytes = std::max(stats.max_queue_bytes, stats.queue_bytes);
  }
  ++stats.enqueued_packets;
  if (port.queues == nullptr) {
    port.waiting.push(packet);
  } else {
    port.queues->push(queue, packet);
  }
  if (idle) {
    // It counts as waiting until serve() takes it out again.
    ++stats.queue_packets;
    stats.queue_bytes += packet->queue_bytes;
    serve(index, now_ns);
    schedule(index);
  }
}

[[gnu::always_inline]] inline bool TrafficManager::leaves_egress(std::uint32_t index, Port& port,
                                                                 Packet* packet,
                                                                 std::uint32_t waiting,
                                                                 std::int64_t now_ns) {
  port.in_egress = true;
  const bool had_ce = has_ce(packet->buffer->frame());
  const bool leaves = client_.egress(index, *packet, waiting, now_ns);
  port.in_egress = false;
  if (!leaves) {
    ++port.labels.of(packet->label).not_sent;
    pool_.give(packet);
    return false;
  }
  if (!had_ce && has_ce(packet->buffer->frame())) {
    ++port.labels.of(packet->label).egress_marked;
  }
  if (packet->is_marked) mark(index, *packet, now_ns);
  return true;
}

// The short way of enqueue() and serve(), for a packet that finds a direct port idle.
void TrafficManager::pass(std::uint32_t index, Port& port, Packet* packet,
                          std::uint32_t frame_bytes, std::int64_t now_ns) {
  packet->time_ns = now_ns;
  packet->queue_bytes = bytes_on_link(port, frame_bytes);
  packet->enq_qdepth = 0;
  LabelCounts& counts = port.labels.of(packet->label);
  ++counts.entered;
  ++counts.served;
  ++port.stats.enqueued_packets;
  if (leaves_egress(index, port, packet, 0, now_ns)) {
    if (port.config.delay_ns == 0 && port.wire.is_empty()) {
      leave(index, packet, now_ns);
      if (port.waiting.empty()) return;
    } else {
      pool_.take_vector_back(*packet);
      port.wire.put(packet, now_ns + port.config.delay_ns);
    }
  }
  if (!port.waiting.empty()) serve(index, now_ns);  // egress has sent a copy here
  schedule(index);
}

void TrafficManager::take_from_queue(Port& port, const Packet& packet) {
  --port.stats.queue_packets;
  port.stats.queue_bytes -= packet.queue_bytes;
}

void TrafficManager::serve(std::uint32_t index, std::int64_t now_ns) {
  Port& port = port_at(index);
  while (port.in_service == nullptr && !port.none_waits()) {
    Packet* packet = port.take_waiting();
    take_from_queue(port, *packet);
    std::uint32_t waiting = port.stats.queue_packets;
    if (port.queues != nullptr) [[unlikely]] {
      waiting = port.queues->depth(port.queues->queue_of(*packet));
    }
    ++port.labels.of(packet->label).served;
    if (!leaves_egress(index, port, packet, waiting, now_ns)) continue;
    if (port.rate == 0) {
      put_on_wire(index, port, packet, now_ns);
      continue;
    }
    if (port.free_ns < now_ns) {
      port.free_ns = now_ns;
      port.remainder = 0;
    }
    const std::uint64_t work =
        bytes_on_link(port, packet->buffer->size) * 8 * kNsPerSecond + port.remainder;
    port.free_ns += static_cast<std::int64_t>(work / port.rate);
    port.remainder = work % port.rate;
    port.in_service = packet;
  }
}

void TrafficManager::put_on_wire(std::uint32_t index, Port& port, Packet* packet,
                                 std::int64_t sent_ns) {
  pool_.take_vector_back(*packet);
  if (port.impaired) [[unlikely]] {
    return put_on_impaired_wire(index, packet, sent_ns);
  }
  port.wire.put(packet, sent_ns + port.config.delay_ns);
}

void TrafficManager::put_on_impaired_wire(std::uint32_t index, Packet* packet,
                                          std::int64_t sent_ns) {
  Port& port = port_at(index);
  const std::uint32_t label = packet->label;
  if (!port.wire.is_impaired()) return port.wire.put(packet, sent_ns + port.config.delay_ns);
  switch (port.wire.impair(packet, sent_ns + port.config.delay_ns, pool_)) {
    case Wire::Fate::kSent: break;
    case Wire::Fate::kSentTwice:
      ++port.stats.duplicated_packets;
      ++port.labels.of(label).duplicated;
      break;
    case Wire::Fate::kLost: lose_on_wire(index, packet);
  }
}

void TrafficManager::delay_arrival(std::uint32_t index, Packet* packet, std::int64_t now_ns) {
  Port& port = port_at(index);
  pool_.take_vector_back(*packet);
  const std::int64_t due_ns = now_ns + port.config.rx_delay_ns;
  if (!port.arriving.is_impaired()) {
    port.arriving.put(packet, due_ns);
  } else {
    switch (port.arriving.impair(packet, due_ns, pool_)) {
      case Wire::Fate::kSent: break;
      case Wire::Fate::kSentTwice: ++port.stats.rx_duplicated_packets; break;
      case Wire::Fate::kLost: lose_arriving(index, packet);
    }
  }
  schedule(index);
}

void TrafficManager::deliver(std::uint32_t index, Port& port, Packet* packet) {
  ++port.stats.tx_packets;
  port.stats.tx_bytes += packet->buffer->size;
  client_.deliver(index, *packet);
  pool_.give(packet);
}

void TrafficManager::deliver_before(std::uint32_t index, std::int64_t until_ns) {
  Port& port = port_at(index);
  Wire& wire = port.wire;
  const auto first = [&] { return std::min(wire.next_event(), wire.next_held()); };
  if (first() >= until_ns) return;
  do {
    deliver(index, port, wire.next_event() == first() ? wire.pop() : wire.pop_held());
  } while (first() < until_ns);
  schedule(index);
}

void TrafficManager::leave(std::uint32_t index, Packet* packet, std::int64_t now_ns) {
  leaving_ns_ = now_ns;
  leaving_.push_back({index, packet});
  for (std::size_t at = leaving_.size() - 1;
       at > first_leaving_ && leaving_[at - 1].port > leaving_[at].port; --at) {
    std::swap(leaving_[at - 1], leaving_[at]);
  }
}

void TrafficManager::deliver_leaving() {
  while (first_leaving_ < leaving_.size()) {
    const Leaving next = leaving_[first_leaving_];
    if (!soon_.empty() || !due_.empty()) {
      const std::uint32_t other = next_port();
      if (port_at(other).due_ns == leaving_ns_ && other < next.port) return step_at(other);
    }
    ++first_leaving_;
    deliver(next.port, port_at(next.port), next.packet);
  }
  leaving_.clear();
  first_leaving_ = 0;
}

void TrafficManager::step() {
  if (!leaving_.empty()) return deliver_leaving();
  if (next_event() == kNever) return;
  step_at(next_port());
}

void TrafficManager::step_at(std::uint32_t index) {
  Port& port = port_at(index);
  const std::int64_t now_ns = port.due_ns;
  if (port.wire.next_event() == now_ns) {
    // All of them: no other port's event, and no timer, comes between frames of one instant.
    do {
      deliver(index, port, port.wire.pop());
    } while (port.wire.next_event() == now_ns);
  } else if (port.impaired && port.wire.next_held() == now_ns) {
    deliver(index, port, port.wire.pop_held());
  } else if (port.in_service != nullptr && port.free_ns == now_ns) {
    Packet* packet = port.in_service;
    port.in_service = nullptr;
    put_on_wire(index, port, packet, now_ns);
    serve(index, now_ns);
  } else {
    const bool in_order = port.arriving.next_event() == now_ns;
    Packet* packet = in_order ? port.arriving.pop() : port.arriving.pop_held();
    client_.arrive(index, packet, now_ns);
  }
  schedule(index);
}

}  // namespace tiercast::engine
