// The ports' queues, links and wires, in virtual time.
//
// A port is a drop-tail FIFO, a fair queue or two queues by priority, a link with a rate, and a
// wire with a propagation delay. RED may drop a packet when it arrives, or decide to mark it. A
// packet that finds the link idle is served at once and never counts as waiting. The egress
// pipeline runs when a packet's service starts; the bytes that egress leaves determine the service
// time: (frame + overhead) * 8 / rate. Service times add up without rounding: an instant is whole
// nanoseconds plus a remainder in units of 1/rate nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/label_table.h"
#include "dataplane/engine/queues/port.h"
#include "dataplane/engine/queues/queue_discipline.h"
#include "dataplane/engine/queues/red.h"
#include "dataplane/engine/queues/wire.h"

namespace tiercast::engine {

class TrafficManager {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  enum class Loss {
    kQueueFull,
    kEarly,   // by RED on arrival
    kDown,    // before its service
    kOnWire,  // by chance, or because the link went down
    kOnArrivingWire
  };

  class Client {
   public:
    virtual ~Client() = default;
    // The packet's service starts at now_ns, with `waiting` packets behind it in its queue. Return
    // true if packet.buffer is the frame to send. Return false if nothing is to be sent: the packet
    // goes back to the pool, and the link stays idle.
    virtual bool egress(std::uint32_t port, Packet& packet, std::uint32_t waiting,
                        std::int64_t now_ns) = 0;
    // A frame leaves the wire at packet.time_ns.
    virtual void deliver(std::uint32_t port, const Packet& packet) = 0;
    // The packet is lost at the port, and counted there.
    virtual void lost(std::uint32_t port, const Packet& packet, Loss why) = 0;
    // RED on arrival has marked the frame, which is about to leave.
    virtual void marked(std::uint32_t port, const Packet& packet, std::int64_t now_ns) = 0;
    // A frame arrives after its rx_delay_ns. The client takes ownership.
    virtual void arrive(std::uint32_t port, Packet* packet, std::int64_t now_ns) = 0;
  };

  // seed: of RED's random numbers; each port has its own.
  TrafficManager(std::uint32_t ports, PacketPool& pool, Client& client, std::uint64_t seed);

  bool has(std::uint32_t port) const {
    return port < ports_.size() && ports_[port] != nullptr && ports_[port]->exists;
  }
  // RED on arrival of a port that exists; null: it has none.
  const Red* red(std::uint32_t port) const { return port_at(port).red.get(); }
  // The rate is rounded to whole bit/s. wrong() must be empty.
  void set(std::uint32_t port, const PortConfig& config, std::int64_t now_ns);
  void remove(std::uint32_t port);
  const PortConfig& config(std::uint32_t port) const { return port_at(port).config; }
  PortStats& stats(std::uint32_t port) { return port_at(port).stats; }
  // In service or on the wire.
  std::uint32_t on_wire(std::uint32_t port) const {
    return port_at(port).wire.count() + (port_at(port).in_service == nullptr ? 0 : 1);
  }
  // The port must exist or have existed.
  const LabelTable& labels(std::uint32_t port) const { return port_at(port).labels; }
  std::vector<std::uint32_t> ports() const;

  // Takes ownership of the packet, whose frame now has frame_bytes bytes. The port must exist.
  void enqueue(std::uint32_t port, Packet* packet, std::uint32_t frame_bytes, std::int64_t now_ns);
  // Whether packets received on the port must pass through delay_arrival().
  bool delays_arrivals(std::uint32_t port) const { return port_at(port).delays_arrivals; }
  // Takes ownership of the packet and calls Client::arrive after the port's rx_delay_ns, unless its
  // rx_wire loses it.
  void delay_arrival(std::uint32_t port, Packet* packet, std::int64_t now_ns);

  // Delivers now, with the times at which they leave, the frames that leave the port's wire before
  // until_ns.
  void deliver_before(std::uint32_t port, std::int64_t until_ns);

  std::int64_t next_event() const {
    if (!leaving_.empty()) return leaving_ns_;
    return std::min(due_.empty() ? kNever : port_at(due_[0]).due_ns,
                    soon_.empty() ? kNever : soon_ns_);
  }
  // Performs the earliest event, which is due at next_event(). Of simultaneous events, the lower
  // port comes first; at one port, frames that leave the wire come first, then the end of a
  // service, then arrivals.
  void step();

 private:
  struct Port {
    bool exists = false;
    bool in_egress = false;  // the client's egress() is running for this port
    PortConfig config;
    std::uint64_t rate = 0;  // bit/s; 0: unlimited
    PortStats stats;
    LabelTable labels;
    PacketList waiting;
    Wire wire, arriving;
    bool delays_arrivals = false;
    bool impaired = false;   // either wire is
    bool is_direct = false;  // nothing delays, drops or marks a packet that finds the port idle:
                             // no rate, queues, RED or impairment
    std::unique_ptr<QueueDiscipline> queues;  // hold the waiting packets instead of `waiting`
    std::unique_ptr<Red> red;
    Packet* in_service = nullptr;
    std::int64_t free_ns = 0;      // the link is, or became, free at free_ns +
    std::uint64_t remainder = 0;   // remainder / rate nanoseconds
    std::int64_t due_ns = kNever;  // of the next event; due_ is sorted by this
    bool is_soon = false;          // whether the port is in soon_ instead of due_
    std::uint32_t place = 0;       // index in due_, while due_ns is not kNever
    std::int64_t next_event() const;
    bool none_waits() const { return queues == nullptr ? waiting.empty() : queues->empty(); }
    Packet* take_waiting() { return queues == nullptr ? waiting.pop() : queues->pop(); }
  };

  // A set of ports, in ascending order.
  class PortSet {
   public:
    explicit PortSet(std::uint32_t ports) : words_((ports + 63) / 64) {}
    bool empty() const { return count_ == 0; }
    void add(std::uint32_t port) {
      words_[port / 64] |= std::uint64_t{1} << port % 64;
      ++count_;
    }
    void remove(std::uint32_t port) {
      words_[port / 64] &= ~(std::uint64_t{1} << port % 64);
      --count_;
    }
    std::uint32_t first() const {
      std::size_t word = 0;
      while (words_[word] == 0) ++word;
      return static_cast<std::uint32_t>(word * 64) +
             static_cast<std::uint32_t>(__builtin_ctzll(words_[word]));
    }

   private:
    std::vector<std::uint64_t> words_;
    std::uint32_t count_ = 0;
  };

  // Makes the port if it is used for the first time.
  Port& port_at(std::uint32_t port) const {
    std::unique_ptr<Port>& at = ports_[port];
    return at == nullptr ? make_port(at) : *at;
  }
  // Apart, so that port_at() is short.
  static Port& make_port(std::unique_ptr<Port>& at);
  // Puts the port into soon_ or due_, according to its next event.
  void schedule(std::uint32_t port);
  void unschedule(std::uint32_t port);
  // The port with the earliest event. There must be one.
  std::uint32_t next_port() const;
  void move_in_heap(std::uint32_t port, std::size_t place);
  bool earlier(std::uint32_t a, std::uint32_t b) const {
    return port_at(a).due_ns != port_at(b).due_ns ? port_at(a).due_ns < port_at(b).due_ns : a < b;
  }
  // Performs the port's next event.
  void step_at(std::uint32_t port);
  void serve(std::uint32_t port, std::int64_t now_ns);
  void pass(std::uint32_t index, Port& port, Packet* packet, std::uint32_t frame_bytes,
            std::int64_t now_ns);
  // Whether a packet that egress has looked at leaves; otherwise it has gone back to the pool.
  // waiting: behind it, in its queue.
  bool leaves_egress(std::uint32_t index, Port& port, Packet* packet, std::uint32_t waiting,
                     std::int64_t now_ns);
  void put_on_wire(std::uint32_t index, Port& port, Packet* packet, std::int64_t sent_ns);
  [[gnu::noinline]] void put_on_impaired_wire(std::uint32_t port, Packet* packet,
                                              std::int64_t sent_ns);
  void set_wires(std::uint32_t port, std::int64_t now_ns);
  void lose_all(std::uint32_t port);
  void lose_on_wire(std::uint32_t port, Packet* packet);
  void lose_arriving(std::uint32_t port, Packet* packet);
  [[gnu::noinline]] void lose_unserved(std::uint32_t port, Packet* packet);
  void deliver(std::uint32_t index, Port& port, Packet* packet);
  void leave(std::uint32_t port, Packet* packet, std::int64_t now_ns);
  // Delivers what is in leaving_, up to what another port must do first.
  void deliver_leaving();
  std::uint64_t seed_of(std::uint32_t port) const;
  void take_from_queue(Port& port, const Packet& packet);
  // Whether a queue of that length has no place for the packet.
  static bool is_full(const Port& port, const QueueDiscipline::Length& length,
                      const Packet& arriving);
  // Whether packets that wait in the full queue have given way to the one that arrives.
  [[gnu::noinline]] bool make_room(std::uint32_t port, std::uint32_t queue, const Packet& arriving);
  [[gnu::noinline]] void lose_in_queue(std::uint32_t port, Packet* packet,
                                       std::uint32_t frame_bytes);
  void set_queues(Port& port);
  void set_red(std::uint32_t port, const std::optional<RedConfig>& config);
  // RED's word on a packet that arrives; false: it is dropped.
  [[gnu::noinline]] bool pass_red(Port& port, Packet& packet, bool idle, std::int64_t now_ns);
  [[gnu::noinline]] void mark(std::uint32_t port, Packet& packet, std::int64_t now_ns);
  std::uint32_t bytes_on_link(const Port& port, std::uint32_t frame_bytes) const;

  PacketPool& pool_;
  Client& client_;
  const std::uint64_t seed_;
  // Most numbers are never used, and a port has hundreds of bytes.
  mutable std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::uint32_t> active_;  // ports that exist, ascending
  // The ports with pending events. soon_ has those due at the instant soon_ns_, which for ports
  // without a rate is the present. due_ has the others, as a binary heap with the earliest on top.
  PortSet soon_;
  std::int64_t soon_ns_ = kNever;
  std::vector<std::uint32_t> due_;
  // Frames that have no delay, on a wire without others, are here instead, by ascending ports, and
  // go at leaving_ns_, the present: no event is earlier.
  struct Leaving {
    std::uint32_t port;
    Packet* packet;
  };
  std::vector<Leaving> leaving_;
  std::size_t first_leaving_ = 0;  // those before it have left
  std::int64_t leaving_ns_ = 0;
};

}  // namespace tiercast::engine
