// A sender core and any number of receiver cores one delay apart, without queues or a network: what
// is timed is the cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/pacer/pacer.h"

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
  ~Group();

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
  class SenderSink;
  class ReceiverSink;
  static constexpr std::uint32_t kAll = 0xffffffff;

  Time next_instant();
  void deliver_feedback();
  void deliver_to_receivers(const Message& message);
  void run_receiver_timers();
  void watch(std::uint32_t receiver);
  void send_data(Rank layer);
  Message take_buffer();

  const GroupConfig config_;
  SessionConfig session_;
  Rng rng_;
  Time now_;
  std::unique_ptr<SenderCore> sender_;
  std::vector<std::unique_ptr<ReceiverCore>> receivers_;
  std::unique_ptr<SenderSink> sender_sink_;
  std::unique_ptr<ReceiverSink> receiver_sink_;
  Pacer pacer_;
  std::uint32_t released_[kMaxLayers] = {};
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
  static void count(bool on);  // from now on
  static std::uint64_t calls();
  static std::size_t bytes();
};

}  // namespace tiercast::bench
