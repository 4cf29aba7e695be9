#include "dataplane/dpdk/vlan.h"

#include <cstring>
#include <string_view>

#include "protocols/base/units.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::dpdk {
namespace {

constexpr std::size_t kMacBytes = 12;  // both addresses

}  // namespace

Vlan parse_vlan(const std::string& text) {
  const std::size_t colon = text.find(':');
  try {
    const double id = parse_number(text.substr(0, colon));
    const double priority =
        colon == std::string::npos ? 0 : parse_number(std::string_view(text).substr(colon + 1));
    if (id >= 1 && id <= 4094 && id == static_cast<int>(id) && priority >= 0 && priority <= 7 &&
        priority == static_cast<int>(priority)) {
      return {static_cast<std::uint16_t>(id), static_cast<std::uint8_t>(priority)};
    }
  } catch (const ConfigError&) {
    // Not a number. The error below shows the form.
  }
  throw ConfigError("--vlan: '" + text +
                    "' is not a tag; valid: 1 to 4094, or with a priority of 0 "
                    "to 7 as in 100:5");
}

void insert_tag(const Vlan& vlan, std::span<std::byte> frame) {
  std::memmove(frame.data(), frame.data() + kVlanBytes, kMacBytes);
  wire::put16(frame, kMacBytes, kEtherTypeVlan);
  wire::put16(frame, kMacBytes + 2, vlan.tag());
}

bool insert_tag(const Vlan& vlan, rte_mbuf* frame) {
  auto* const tagged = reinterpret_cast<std::byte*>(rte_pktmbuf_prepend(frame, kVlanBytes));
  if (tagged == nullptr) return false;
  insert_tag(vlan, std::span(tagged, rte_pktmbuf_data_len(frame)));
  return true;
}

bool remove_tag(const Vlan& vlan, rte_mbuf* frame) {
  std::byte* const start = rte_pktmbuf_mtod(frame, std::byte*);
  const std::span<const std::byte> bytes(start, rte_pktmbuf_data_len(frame));
  if (bytes.size() < wire::kEthernetBytes + kVlanBytes ||
      wire::get16(bytes, kMacBytes) != kEtherTypeVlan ||
      (wire::get16(bytes, kMacBytes + 2) & 0xfff) != vlan.id) {
    return false;
  }
  std::memmove(start + kVlanBytes, start, kMacBytes);
  return rte_pktmbuf_adj(frame, kVlanBytes) != nullptr;
}

}  // namespace tiercast::dpdk
