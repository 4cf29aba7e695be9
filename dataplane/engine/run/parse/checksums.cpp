#include "dataplane/engine/run/parse/checksums.h"

#include <cstring>

namespace tiercast::engine {

// The checksum that a received header should have. Since 2^16 = 1 modulo 2^16 - 1, 32 bits may be
// added at a time.
Cell Checksums::sum_received(const Checksum& c, const PacketState& packet) const {
  const HeaderPlan& plan = image_.header_plans[c.whole_header];
  const std::byte* data = packet.data + packet.phv[plan.origin_cell] - 1;
  const std::byte* const end = data + plan.bytes;
  std::uint64_t sum = 0;
  for (; end - data >= 4; data += 4) {
    std::uint32_t word;
    std::memcpy(&word, data, sizeof word);
    sum += __builtin_bswap32(word);
  }
  if (data != end) {
    std::uint16_t word;
    std::memcpy(&word, data, sizeof word);
    sum += Cell{__builtin_bswap16(word)} << 16;
  }
  sum -= packet.phv[c.cell] << c.whole_header_shift;  // subtract the checksum itself, which was
                                                      // added
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

void Checksums::verify(const Checksum& c, PacketState& packet) {
  const HeaderPlan* const whole =
      c.whole_header == kNone ? nullptr : &image_.header_plans[c.whole_header];
  const bool received =
      whole != nullptr && packet.phv[whole->valid_cell] != 0 && packet.phv[whole->origin_cell] != 0;
  const Cell computed =
      received ? sum_received(c, packet) : calculations_.calculate(c.calculation, packet);
  if ((computed & low_mask(c.width)) != packet.phv[c.cell]) {
    packet.phv[image_.checksum_error_cell] = 1;
  }
}

void Checksums::update(const Checksum& c, PacketState& packet) {
  packet.phv[c.cell] = calculations_.calculate(c.calculation, packet) & low_mask(c.width);
}

bool Checksums::holds(const Checksum& c, PacketState& packet) {
  return c.condition.empty() || interpreter_.run(c.condition, packet);
}

void Checksums::verify_all(PacketState& packet) {
  packet.phv[image_.checksum_error_cell] = 0;
  for (const Checksum& c : image_.checksums) {
    if (c.verify && holds(c, packet)) verify(c, packet);
  }
}

void Checksums::update_all(PacketState& packet) {
  for (const Checksum& c : image_.checksums) {
    if (c.update && holds(c, packet)) update(c, packet);
  }
}

}  // namespace tiercast::engine
