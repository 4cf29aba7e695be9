// One direction of a link: a drop-tail queue, a transmitter with a fixed rate, a propagation delay,
// and SIM's priority marking (SIM 3.1, 3.4; PROTOCOLS 3.4) or RED.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "protocols/testkit/packet.h"
#include "protocols/testkit/red.h"
#include "protocols/testkit/simulator.h"

namespace tiercast::testkit {

// 0: no bound of that kind.
struct QueueLimit {
  std::uint32_t packets = 0;
  std::uint64_t bytes = 0;
};

struct LinkConfig {
  Rate rate;                // IP bytes; zero: unlimited, so there is no queue
  Duration delay;           // propagation
  QueueLimit queue{50, 0};  // waiting packets, not counting the one in service
  bool marking = true;
  double queue_weight = 0.125;  // EWMA weight of the queue length, updated at departures
  // Mark when the EWMA exceeds this many packets. A negative value stands for the packets of 20 ms
  // at the link's rate, but at least 2 and at most 5.
  double threshold = -1;
  std::optional<RedConfig> red;
};

class Link : public Actor {
 public:
  // `packet_bytes`: size of the packets that the default threshold counts.
  Link(Simulator& simulator, const LinkConfig& config, PacketSink& to,
       std::uint32_t packet_bytes = 1000);

  void send(const Packet& packet);

  // The highest rank of `session` with a subscriber beyond this link; -1: none. Only that group is
  // marked.
  void set_top_group(std::uint16_t session, int rank) { top_group_[session] = rank; }
  void set_rate(Rate rate);

  struct Stats {
    std::uint64_t sent = 0;  // packets that left the queue
    std::uint64_t bytes = 0;
    std::uint64_t marked = 0;
    std::uint64_t dropped = 0;  // because the queue was full, or by RED
    std::uint32_t max_queue = 0;
  };
  const Stats& stats() const { return stats_; }
  std::uint32_t queue_packets() const { return static_cast<std::uint32_t>(queue_.size()); }
  double average_queue() const { return average_queue_; }
  const LinkConfig& config() const { return config_; }

 private:
  struct Flying {
    Time arrives;
    Packet packet;
  };

  void act() override;
  void start_service(Packet packet, bool was_idle);
  void schedule();

  LinkConfig config_;
  PacketSink& to_;
  std::uint32_t packet_bytes_;
  std::deque<Packet> queue_;
  std::uint64_t queue_bytes_ = 0;
  bool busy_ = false;
  Time service_ends_ = Time::never();
  std::deque<Flying> flying_;  // on the wire, in order of arrival
  double average_queue_ = 0;
  double threshold_ = 0;
  std::map<std::uint16_t, int> top_group_;
  std::optional<Red> red_;
  Stats stats_;
};

}  // namespace tiercast::testkit
