// How a switch is set up, and what it counts beside its ports.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class PacketPool;

struct SwitchOptions {
  std::uint32_t cpu_port = 510;   // 0..511
  std::uint32_t drop_port = 511;  // where a dropped packet is sent (v1model: its egress_spec)
  std::uint64_t seed = 1;         // of the program's random numbers
  // false: programs run in the form in which they were compiled, several times slower. Both forms
  // do the same to every packet; tests compare them.
  bool flat_code = true;
  // Memory of its packets, which switches of the same program may share if one thread calls them:
  // a packet that goes through many switches then stays in the processor's cache. Null: its own.
  std::shared_ptr<PacketPool> pool = nullptr;
  LabelRule label = {};
};

// Frames that ended without a port's queue being the reason.
struct SwitchStats {
  std::uint64_t no_port_packets = 0;              // to or from a port that does not exist
  std::uint64_t ingress_dropped_packets = 0;      // by the program's ingress pipeline
  std::uint64_t oversize_packets = 0;             // a frame above 65535 bytes, received or deparsed
  std::uint64_t recirculation_limit_packets = 0;  // resubmitted or recirculated too often
  std::uint64_t assertion_failed_packets = 0;     // by an assert() or assume() that did not hold
  std::uint64_t dropped_digests = 0;  // that found no room, or that nobody took (Output::digest)
};

}  // namespace tiercast::engine
