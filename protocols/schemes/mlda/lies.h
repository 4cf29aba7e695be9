// What members of MLDA can lie about: their loss, and the rate that they ask for.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/mlda/messages.h"

namespace tiercast::mlda {

inline constexpr Lie kLies[] = {
    {"never_congested", "reports no loss, and asks for the highest rate",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::MldaReceiverReport>(honest, out, [](wire::MldaReceiverReport& report) {
         report.loss = 0;
         report.rate = Lie::kMost;
       });
     }},
    {"rate_zero", "asks for a rate of 0",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::MldaReceiverReport>(
           honest, out, [](wire::MldaReceiverReport& report) { report.rate = 0; });
     }},
};

}  // namespace tiercast::mlda
