// What members of MDP-CC can lie about: their loss event rate, and rates.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/mdpcc/messages.h"

namespace tiercast::mdpcc {

inline constexpr Lie kLies[] = {
    {"never_congested", "reports no loss, and the highest rate",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::MdpccReport>(honest, out, [](wire::MdpccReport& report) {
         report.loss = 0;
         report.rate = report.received_rate = Lie::kMost;
         report.flags =
             static_cast<std::uint8_t>((report.flags | wire::kMdpccStart) & ~wire::kMdpccEvent);
       });
     }},
    {"rate_zero", "reports that everything is lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold<wire::MdpccReport>(honest, out, [](wire::MdpccReport& report) {
         report.loss = Lie::kMost;
         report.rate = report.received_rate = 0;
         report.flags = static_cast<std::uint8_t>(report.flags & ~wire::kMdpccStart);
       });
     }},
};

}  // namespace tiercast::mdpcc
