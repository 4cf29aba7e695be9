// What members of PGMCC can lie about: which packets they have.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/pgmcc/messages.h"

namespace tiercast::pgmcc {

inline constexpr std::uint32_t kAhead = 16;  // packets

// No packet was lost: no NAK is sent, and acknowledgements go `ahead` beyond the highest packet.
inline std::size_t without_loss(std::span<const std::byte> honest, std::span<std::byte> out,
                                std::uint32_t ahead) {
  using Kind = wire::PgmccFeedback::Kind;
  bool silent = false;
  const std::size_t length =
      retold<wire::PgmccFeedback>(honest, out, [&](wire::PgmccFeedback& feedback) {
        silent = feedback.kind == Kind::kNak;
        feedback.loss = 0;
        if (feedback.kind != Kind::kAck) return;
        feedback.rx_max += ahead;
        feedback.bitmap = 0xffffffff;
      });
  return silent ? 0 : length;
}

inline constexpr Lie kLies[] = {
    {"never_congested", "sends no NAK, and as acker acknowledges what it lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return without_loss(honest, out, 0);
     }},
    {"optimistic_acks", "and acknowledges 16 packets more than have arrived",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return without_loss(honest, out, kAhead);
     }},
};

}  // namespace tiercast::pgmcc
