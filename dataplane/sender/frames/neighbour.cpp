#include "dataplane/sender/frames/neighbour.h"

#include <algorithm>

#include "protocols/wire/bytes.h"

namespace tiercast::sender {
namespace {

using dpdk::kArpBytes;

constexpr std::uint16_t kEtherTypeArp = 0x0806;
constexpr std::array<std::uint16_t, 3> kEthernetIpv4{1, 0x0800, 0x0604};
constexpr std::uint16_t kRequest = 1;
constexpr std::uint16_t kReply = 2;

std::uint64_t packed(const agent::MacAddress& mac) {
  std::uint64_t value = 0;
  for (const std::byte byte : mac) value = value << 8 | static_cast<std::uint64_t>(byte);
  return value;
}

}  // namespace

Neighbour::Neighbour(const OwnAddress& own, std::uint32_t ip, const agent::MacAddress& fallback)
    : own_(own), ip_(ip), mac_(packed(fallback)) {}

bool Neighbour::ask(Time now, std::span<std::byte, kFrameBytes> frame) {
  if (ip_ == 0 || now < next_) return false;
  next_ = now + kRetry;
  std::fill(frame.begin(), frame.end(), std::byte{0});
  std::fill_n(frame.begin(), 6, std::byte{0xff});
  std::copy(own_.mac.begin(), own_.mac.end(), frame.begin() + 6);
  wire::put16(frame, 12, kEtherTypeArp);
  const auto arp = frame.subspan(wire::kEthernetBytes);
  for (std::size_t i = 0; i < kEthernetIpv4.size(); ++i) wire::put16(arp, 2 * i, kEthernetIpv4[i]);
  wire::put16(arp, 6, kRequest);
  std::copy(own_.mac.begin(), own_.mac.end(), arp.begin() + 8);
  wire::put32(arp, 14, own_.ip);
  wire::put32(arp, 24, ip_);
  return true;
}

bool Neighbour::learn(Time now, std::span<const std::byte> frame) {
  if (ip_ == 0 || frame.size() < wire::kEthernetBytes + kArpBytes ||
      wire::get16(frame, 12) != kEtherTypeArp) {
    return false;
  }
  const auto arp = frame.subspan(wire::kEthernetBytes);
  for (std::size_t i = 0; i < kEthernetIpv4.size(); ++i) {
    if (wire::get16(arp, 2 * i) != kEthernetIpv4[i]) return false;
  }
  const std::uint16_t operation = wire::get16(arp, 6);
  if ((operation != kRequest && operation != kReply) || wire::get32(arp, 14) != ip_) return false;
  agent::MacAddress mac{};
  std::copy_n(arp.begin() + 8, mac.size(), mac.begin());
  mac_.store(packed(mac), std::memory_order_relaxed);
  next_ = now + kRefresh;
  return true;
}

agent::MacAddress Neighbour::mac() const {
  const std::uint64_t value = mac_.load(std::memory_order_relaxed);
  agent::MacAddress mac{};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    mac[i] = static_cast<std::byte>(value >> 8 * (mac.size() - 1 - i));
  }
  return mac;
}

}  // namespace tiercast::sender
