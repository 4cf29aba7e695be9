// How a switch is set up, and what it counts besides its ports' statistics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class PacketPool;

struct SwitchOptions {
  std::uint32_t cpu_port = 510;   // 0..511
  std::uint32_t drop_port = 511;  // the port number that means "drop" (v1model: in egress_spec)
  std::uint64_t seed = 1;         // for the program's random numbers
  // Run the program's fast form. Without it programs run several times slower, in the form in which
  // they were compiled. Both forms treat every packet alike; tests compare them.
  bool flat_code = true;
  // Memory for packets. Null: the switch's own. Switches of the same program may share a pool if
  // one thread calls them all; a packet that crosses many switches then stays in the processor's
  // cache.
  std::shared_ptr<PacketPool> pool = nullptr;
  LabelRule label = {};
  // The register array in which a program finds, at the port's number, how many packets wait at
  // that port now: the one in service, or in egress, is not counted. Programs without such a
  // register have none, and those of v1model, which tells a program the depth, find nothing there.
  std::string depth_register = {};
};

// Frames that were lost for another reason than a port's queue.
struct SwitchStats {
  std::uint64_t no_port_packets = 0;              // to or from a port that does not exist
  std::uint64_t ingress_dropped_packets = 0;      // dropped by the program's ingress pipeline
  std::uint64_t oversize_packets = 0;             // a frame above 65535 bytes, received or deparsed
  std::uint64_t recirculation_limit_packets = 0;  // resubmitted or recirculated too many times
  std::uint64_t assertion_failed_packets = 0;     // dropped by an assert() or assume() that failed
  std::uint64_t dropped_digests = 0;  // digests lost because there was no room, or nobody took them
                                      // (Output::digest)
};

}  // namespace tiercast::engine
