// What members of ERMCC can lie about: their throughput at congestion (TRAC).
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/ermcc/messages.h"

namespace tiercast::ermcc {

inline constexpr Lie kLies[] = {
    {"never_congested",
     "reports the highest throughput, and as high a deviation: no cut, and nobody is slower",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::ErmccFeedback>(honest, out, [](wire::ErmccFeedback& feedback) {
         feedback.omega = feedback.mu = feedback.sigma = Lie::kMost;
       });
     }},
    {"rate_zero", "reports a throughput of 0",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::ErmccFeedback>(honest, out, [](wire::ErmccFeedback& feedback) {
         feedback.omega = feedback.mu = feedback.sigma = 0;
       });
     }},
};

}  // namespace tiercast::ermcc
