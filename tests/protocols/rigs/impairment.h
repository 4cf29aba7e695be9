// A lossy last hop in front of a testkit host: drops, repeats and reorders packets.
#pragma once

#include <cstdint>
#include <functional>

#include "protocols/base/rng.h"
#include "protocols/testkit/packet.h"
#include "protocols/testkit/simulator.h"

namespace tiercast::testkit {

class Impairment : public PacketSink {
 public:
  struct Rates {
    double loss = 0;       // 0 .. 1
    double duplicate = 0;  // packets that arrive twice
    double late = 0;       // packets overtaken by what follows within `lateness`
    Duration lateness = Duration::milliseconds(15);
  };

  // Attach this to the Tree instead of the host.
  Impairment(Simulator& simulator, PacketSink& host, const Rates& rates, std::uint64_t seed)
      : simulator_(simulator), host_(host), rates_(rates), rng_(seed) {}

  void receive(const Packet& packet) override {
    if (rng_.uniform() < rates_.loss || (lose && lose(packet))) return;
    pass(packet);
    if (rng_.uniform() < rates_.duplicate) pass(packet);
  }

  // Further losses, such as the same ones at several hosts.
  std::function<bool(const Packet&)> lose;

 private:
  void pass(const Packet& packet) {
    if (rng_.uniform() >= rates_.late) {
      host_.receive(packet);
    } else {
      simulator_.at(simulator_.now() + rates_.lateness * rng_.uniform(),
                    [this, packet] { host_.receive(packet); });
    }
  }

  Simulator& simulator_;
  PacketSink& host_;
  const Rates rates_;
  Rng rng_;
};

}  // namespace tiercast::testkit
