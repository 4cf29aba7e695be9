// What members of TFMCC can lie about: the rate that TCP would have on their path.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/tfmcc/messages.h"

namespace tiercast::tfmcc {

inline constexpr Lie kLies[] = {
    {"never_congested", "reports no loss, and the highest rate",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::TfmccFeedback>(honest, out, [](wire::TfmccFeedback& feedback) {
         feedback.have_loss = false;
         feedback.rate = Lie::kMost;
       });
     }},
    {"rate_zero", "reports a rate of 0",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::TfmccFeedback>(honest, out, [](wire::TfmccFeedback& feedback) {
         feedback.have_loss = true;
         feedback.rate = 0;
       });
     }},
};

}  // namespace tiercast::tfmcc
