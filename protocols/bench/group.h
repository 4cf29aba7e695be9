// A sender core and any number of receiver cores one delay apart, without queues or a network: what
// is timed is the cores.
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
  Duration delay = Duration::milliseconds(20);  // each way
  double loss = 0.01;                           // of each packet at each receiver
  std::uint64_t seed = 1;
};

// Calls of one kind of core, and the time they took on the machine's clock.
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
  std::uint64_t allocations = 0;  // inside cores, after construction
  std::size_t sender_bytes = 0;   // allocated by the constructor, and the object itself
  std::size_t receiver_bytes = 0;
  double virtual_s = 0;
};

class Group {
 public:
  Group(const Scheme& scheme, const GroupConfig& config);

  // Until so much virtual time has passed, so many feedback messages were taken, or so much time
  // was spent, whichever comes first.
  GroupCosts run(Duration virtual_time, std::uint64_t feedback, Duration wall_time);

 private:
  struct Message {
    Time arrives;
    std::uint32_t from = 0;  // a receiver's number; the sender's messages: kAll, or a receiver's
    std::uint32_t ip_length = 0;
    std::vector<std::byte> bytes;
  };
  static constexpr std::uint32_t kAll = 0xffffffff;

  // What a driver asks for beside the core: messages are kept for later, without being counted.
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
  std::vector<Message> buffers_;  // to be used again
  using Timer = std::pair<Time, std::uint32_t>;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<Time> watched_;  // of each receiver: its earliest entry in timers_
  GroupCosts costs_;
};

// Counts what operator new hands out in this program (bench_new.cpp).
struct Allocations {
  static void count(bool on);
  static std::uint64_t calls();
  static std::size_t bytes();
};

}  // namespace tiercast::bench
