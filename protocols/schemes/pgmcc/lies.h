// What members of PGMCC can lie about: which packets they have.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/pgmcc/messages.h"

namespace tiercast::pgmcc {

// Acknowledges all packets up to the highest that it has, and `ahead` beyond.
inline void acknowledge_all(wire::PgmccFeedback& feedback, std::uint32_t ahead) {
  if (feedback.kind != wire::PgmccFeedback::Kind::kAck) return;
  feedback.rx_max += ahead;
  feedback.bitmap = 0xffffffff;
}

inline constexpr Lie kLies[] = {
    {"never_congested", "sends no NAK, and as acker acknowledges what it lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       bool is_nak = false;
       const std::size_t length =
           retold<wire::PgmccFeedback>(honest, out, [&](wire::PgmccFeedback& feedback) {
             is_nak = feedback.kind == wire::PgmccFeedback::Kind::kNak;
             feedback.loss = 0;
             acknowledge_all(feedback, 0);
           });
       return is_nak ? 0 : length;
     }},
    // Its NAKs stay, since they make it the acker.
    {"optimistic_acks", "as acker acknowledges 16 packets more than have arrived, and what it lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::PgmccFeedback>(honest, out, [](wire::PgmccFeedback& feedback) {
         acknowledge_all(feedback, Lie::kAhead);
       });
     }},
};

}  // namespace tiercast::pgmcc
