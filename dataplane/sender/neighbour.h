// The MAC address of one next hop, found by ARP (RFC 826).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/sender/responder.h"
#include "protocols/base/units.h"

namespace tiercast::sender {

class Neighbour {
 public:
  static constexpr std::size_t kFrameBytes = 60;
  static constexpr Duration kRetry = Duration::milliseconds(1000);
  static constexpr Duration kRefresh = Duration::milliseconds(60'000);

  // `fallback` until it has answered. `ip`: host order; 0: nobody is asked.
  Neighbour(const OwnAddress& own, std::uint32_t ip, const agent::MacAddress& fallback);

  // The receiving thread: writes the request that is due at `now`, untagged; false: none is due.
  // One is due every second until the neighbour answers, then every minute.
  bool ask(Time now, std::span<std::byte, kFrameBytes> frame);
  // The receiving thread: learns from an ARP reply or request that names the neighbour's address;
  // false: the frame is something else.
  bool learn(Time now, std::span<const std::byte> frame);
  // Any thread.
  agent::MacAddress mac() const;

 private:
  const OwnAddress own_;
  const std::uint32_t ip_;
  std::atomic<std::uint64_t> mac_;
  Time next_ = Time::zero();
};

}  // namespace tiercast::sender
