// A sender core and any number of receiver cores, one delay apart, without queues or a network, so
// that only the cores are timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/driver/receiver_driver.h"
#include "protocols/driver/sender_driver.h"

namespace tiercast::bench {

struct GroupConfig {
  std::uint32_t receivers = 1;
  unsigned layers = 1;
  Duration delay = Duration::milliseconds(20);  // one way
  double loss = 0.01;  // loss rate of packets, at each receiver independently
  std::uint64_t seed = 1;
};

// The calls of one kind, and the time that they took on the machine's clock.
struct Cost {
  std::uint64_t calls = 0;
  double ns = 0;
  double each() const { return calls > 0 ? ns / static_cast<double>(calls) : 0; }
};

struct GroupCosts {
  Cost sender_feedback;
  Cost sender_timer;
  Cost sender_data;  // write_data
  Cost receiver_packet;
  Cost receiver_timer;
  std::uint64_t allocations = 0;  // made inside cores after their construction
  std::size_t sender_bytes = 0;   // the object itself and what its constructor allocates
  std::size_t receiver_bytes = 0;
  double virtual_s = 0;
};

class Group {
 public:
  Group(const Scheme& scheme, const GroupConfig& config);

  // Runs until this much virtual time has passed, this many feedback messages have been handled, or
  // this much real time was spent, whichever comes first.
  GroupCosts run(Duration virtual_time, std::uint64_t feedback, Duration wall_time);

 private:
  struct Message {
    Time arrives;
    std::uint32_t from = 0;  // the receiver's number; for messages of the sender: kAll, or the
                             // receiver that they go to
    std::uint32_t ip_length = 0;
    std::vector<std::byte> bytes;
  };
  static constexpr std::uint32_t kAll = 0xffffffff;

  // What a core asks of its driver. Messages are kept for later; keeping them does not count as an
  // allocation.
  struct Source {
    void send(Destination to, std::span<const std::byte> message);
    void depart(Time now, const Departure& departure) { group.send_data(now, departure.layer); }
    bool wants_records() const { return false; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}
    Group& group;
  };
  struct Member {
    void send(std::span<const std::byte> message);
    Time join(Rank) { return group->now_; }
    void leave(Rank) {}
    void first_packet(Time, Rank, Duration) {}
    void deliver(std::uint64_t, std::span<const std::byte>) {}
    bool wants_records() const { return false; }
    void trace(Time, std::string_view, std::span<const TraceField>) {}

    std::optional<ReceiverDriver<Member>> driver;
    Group* group = nullptr;
    std::uint32_t index = 0;
  };

  Time next_instant();
  void deliver_feedback();
  void deliver_to_receivers(const Message& message);
  void run_receiver_timers();
  void watch(std::uint32_t receiver);
  void send_data(Time now, Rank layer);
  Message take_buffer();

  const GroupConfig config_;
  SessionConfig session_;
  Rng rng_;
  Time now_;
  Source source_{*this};
  std::optional<SenderDriver<Source>> sender_;
  std::vector<Member> receivers_;
  std::deque<Message> to_receivers_;
  std::deque<Message> to_sender_;
  std::vector<Message> buffers_;  // for reuse
  using Timer = std::pair<Time, std::uint32_t>;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<Time> watched_;  // by receiver: its earliest entry in timers_
  GroupCosts costs_;
};

// Counts what operator new hands out in this program (allocations.cpp).
struct Allocations {
  static void count(bool on);
  static std::uint64_t calls();
  static std::size_t bytes();
};

}  // namespace tiercast::bench
