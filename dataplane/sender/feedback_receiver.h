// Processes what the port receives: answers ARP and echo, counts IGMP queries, validates feedback
// and hands it to the worker that runs its session.
//
// One thread calls poll(); another one may add and remove sessions meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/sender/neighbour.h"
#include "dataplane/sender/port.h"
#include "dataplane/sender/sender_addresses.h"
#include "dataplane/sender/statistics.h"
#include "dataplane/sender/worker.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {

class FeedbackReceiver {
 public:
  // `workers` get the feedback; the first one also sends answers and questions. All that is given
  // by reference must outlive the object.
  FeedbackReceiver(const SenderAddresses& addresses, Neighbour& gateway, Port& port,
                   std::vector<Worker*> workers);

  ~FeedbackReceiver();

  // Takes at most `limit` of the frames that were received, and asks the port for more only when
  // none is left: with a `limit` of a whole burst (Port::kBurst) it never keeps any. Returns how
  // many.
  unsigned poll(Time now, unsigned limit = Port::kBurst);

  // The controlling thread: from now on `worker` gets the feedback of `session`, or nobody does.
  void enter(std::uint16_t session, std::uint8_t scheme, unsigned worker, std::uint32_t slot);
  void remove(std::uint16_t session);

  FeedbackStatistics statistics() const;

 private:
  // The frames of a poll that are for one worker.
  struct Batch {
    std::array<rte_mbuf*, Port::kBurst> frames;
    unsigned count = 0;
  };

  void take(Time now, rte_mbuf* mbuf);
  void hand_on();
  // Asks the first worker to send a frame of ours; false: it has no room.
  bool send(rte_mbuf* mbuf);
  // Moves a tagged frame's addresses over its tag; false: another VLAN's frame.
  bool strip_vlan(rte_mbuf* mbuf) const;

  static constexpr std::uint64_t kNobody = ~0ull;  // else worker << 40 | scheme << 32 | slot

  const SenderAddresses addresses_;
  Neighbour& gateway_;
  Port& port_;
  const std::vector<Worker*> workers_;
  std::vector<std::atomic<std::uint64_t>> sessions_;  // by number
  std::vector<Batch> batches_;                        // by worker
  std::array<rte_mbuf*, Port::kBurst> burst_{};       // received, taken up to next_
  unsigned next_ = 0;
  unsigned count_ = 0;
  Counter received_, handed_on_, malformed_, foreign_, answered_, learned_, queries_, ring_full_;
};

}  // namespace tiercast::sender
