// What members of RLA can lie about: which packets they have, and their room.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/rla/messages.h"

namespace tiercast::rla {

// Acknowledges all packets up to the highest that it has, and `ahead` beyond.
inline void acknowledge_all(wire::RlaAck& ack, std::uint32_t ahead) {
  if ((ack.flags & (wire::RlaAck::kHello | wire::RlaAck::kBye)) != 0) return;
  ack.cum_ack = ack.end() + ahead;
  ack.record_count = 0;
  ack.flags = 0;
}

inline constexpr Lie kLies[] = {
    {"never_congested", "acknowledges what it lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::RlaAck>(honest, out, [](wire::RlaAck& ack) { acknowledge_all(ack, 0); });
     }},
    {"rate_zero", "reports that it has no room (rwnd 0)",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::RlaAck>(honest, out, [](wire::RlaAck& ack) { ack.rwnd = 0; });
     }},
    {"optimistic_acks", "acknowledges 16 packets more than have arrived, and what it lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::RlaAck>(honest, out,
                                   [](wire::RlaAck& ack) { acknowledge_all(ack, Lie::kAhead); });
     }},
};

}  // namespace tiercast::rla
