// Processes what the port receives: answers ARP and echo requests, counts IGMP queries, validates
// feedback and passes it to the worker that runs its session.
//
// One thread calls poll(). Meanwhile another one may add and remove sessions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/dpdk/port.h"
#include "dataplane/sender/frames/neighbour.h"
#include "dataplane/sender/frames/sender_addresses.h"
#include "dataplane/sender/metrics/statistics.h"
#include "dataplane/sender/worker/worker.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {

class FeedbackReceiver {
 public:
  // `workers` get the feedback. The first one also sends answers and requests. Everything passed by
  // reference must outlive the object.
  FeedbackReceiver(const SenderAddresses& addresses, Neighbour& gateway, Port& port,
                   std::vector<Worker*> workers);

  ~FeedbackReceiver();

  // Takes at most `limit` of the frames received. Asks the port for more only when none is left, so
  // with a `limit` of a whole burst (Port::kBurst) it never keeps any. Returns how many it took.
  unsigned poll(Time now, unsigned limit = Port::kBurst);

  // For the controlling thread: sets which worker gets the feedback of `session` from now on, or
  // that nobody does.
  void enter(std::uint16_t session, std::uint8_t scheme, unsigned worker, std::uint32_t slot);
  void remove(std::uint16_t session);

  FeedbackStatistics statistics() const;

 private:
  // The frames of one poll that go to one worker.
  struct Batch {
    std::array<rte_mbuf*, Port::kBurst> frames;
    unsigned count = 0;
  };

  void take(Time now, rte_mbuf* mbuf);
  void hand_on();
  // Asks the first worker to send a frame. False if it has no room.
  bool send(rte_mbuf* mbuf);

  static constexpr std::uint64_t kNobody = ~0ull;  // otherwise worker << 40 | scheme << 32 | slot

  const SenderAddresses addresses_;
  Neighbour& gateway_;
  Port& port_;
  const std::vector<Worker*> workers_;
  std::vector<std::atomic<std::uint64_t>> sessions_;  // by number
  std::vector<Batch> batches_;                        // by worker
  std::array<rte_mbuf*, Port::kBurst> burst_{};       // received; taken up to next_
  unsigned next_ = 0;
  unsigned count_ = 0;
  Counter received_, handed_on_, malformed_, foreign_, answered_, learned_, queries_, ring_full_;
};

}  // namespace tiercast::sender
