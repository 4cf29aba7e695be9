// The frames of one trial, sent at a constant rate (RFC 2544 section 21) or back to back.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <mutex>
#include <vector>

#include "agent/address.h"
#include "base/histogram.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/tsc_clock.h"

namespace tiercast::tester {

struct Destination {
  std::uint32_t address = 0;  // host order: a group or a host
  agent::MacAddress mac{};
};

struct Traffic {
  std::uint16_t trial = 0;
  std::uint32_t source = 0;  // host order
  agent::MacAddress source_mac{};
  std::size_t frame_bytes = 60;           // without FCS
  std::vector<Destination> destinations;  // in turn, frame by frame
  double rate = 0;                        // frames/s; 0: back to back
  std::uint64_t frames = 0;
  // A second part, as where a device is relieved (RFC 2544 section 26.5).
  double then_rate = 0;
  std::uint64_t then_frames = 0;
};

struct Sent {
  std::uint64_t frames = 0;   // all of them, unless it was stopped
  std::uint64_t refused = 0;  // times that the device had no room, and was asked again
  std::int64_t first_ns = 0;  // hand-over of the first and the last frame, CLOCK_MONOTONIC
  std::int64_t last_ns = 0;
  std::int64_t then_ns = 0;  // the beginning of the second part
  Histogram late;            // hand-over minus due time; of a burst that of its first frame
};

// Sends from the calling thread, which needs a buffer cache of its own (rte_thread_register).
// `lock` is held while the port is used. Sleeps where the next frame is due in more than 100 us.
// Counts `begun` down once the device has the first frame, or when it returns without one.
Sent send(const Traffic& traffic, const dpdk::Port& port, rte_mempool* pool, std::mutex& lock,
          const std::atomic<bool>& stop, std::latch* begun = nullptr);

}  // namespace tiercast::tester
