// Finds the MAC address of one next hop by ARP (RFC 826).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/dpdk/responder.h"
#include "protocols/base/units.h"

namespace tiercast::sender {

using dpdk::OwnAddress;

class Neighbour {
 public:
  static constexpr std::size_t kFrameBytes = 60;
  static constexpr Duration kRetry = Duration::milliseconds(1000);
  static constexpr Duration kRefresh = Duration::milliseconds(60'000);

  // mac() returns `fallback` until the neighbour has answered. `ip`: host order; 0: ask nobody.
  Neighbour(const OwnAddress& own, std::uint32_t ip, const agent::MacAddress& fallback);

  // For the receiving thread: writes the request that is due at `now`, untagged. False if none is
  // due. A request is due every second until the neighbour answers, then every minute.
  bool ask(Time now, std::span<std::byte, kFrameBytes> frame);
  // For the receiving thread: learns from an ARP reply or request that names the neighbour's
  // address. False if the frame is something else.
  bool learn(Time now, std::span<const std::byte> frame);
  // For any thread.
  agent::MacAddress mac() const;

 private:
  const OwnAddress own_;
  const std::uint32_t ip_;
  std::atomic<std::uint64_t> mac_;
  Time next_ = Time::zero();
};

}  // namespace tiercast::sender
