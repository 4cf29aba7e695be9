// IEEE 802.1Q tags, written into frames and removed from them in place: no device inserts them.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tiercast::dpdk {

struct Vlan {
  std::uint16_t id = 0;       // 1..4094
  std::uint8_t priority = 0;  // 0..7
  std::uint16_t tag() const { return static_cast<std::uint16_t>(priority << 13 | id); }
};

inline constexpr std::size_t kVlanBytes = 4;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;

// Parses "ID" or "ID:PRIORITY", such as "100" or "100:5". ConfigError names --vlan, the text and
// the form.
Vlan parse_vlan(const std::string& text);

// Tags a frame that starts kVlanBytes after the start of `frame`: moves its addresses to the start
// and writes the tag behind them.
void insert_tag(const Vlan& vlan, std::span<std::byte> frame);
// False: the buffer has no room in front.
bool insert_tag(const Vlan& vlan, rte_mbuf* frame);
// Moves a tagged frame's addresses over its tag. False if the frame is not of this VLAN.
bool remove_tag(const Vlan& vlan, rte_mbuf* frame);

}  // namespace tiercast::dpdk
