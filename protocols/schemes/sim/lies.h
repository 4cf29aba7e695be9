// What members of SIM can lie about: their record's congested bit, rate and counts.
#pragma once

#include "protocols/core/lies.h"
#include "protocols/schemes/sim/messages.h"

namespace tiercast::sim {

inline constexpr std::uint32_t kMillion = 1'000'000;

template <class Change>
std::size_t retold_record(std::span<const std::byte> honest, std::span<std::byte> out,
                          Change change) {
  return retold<wire::SimFeedback>(honest, out, [&](wire::SimFeedback& feedback) {
    if (!feedback.records[0].bye()) change(feedback.records[0]);
  });
}

inline constexpr Lie kLies[] = {
    {"never_congested", "reports `uncongested`, whatever was marked or lost",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold_record(honest, out, [](wire::SimRecord& record) { record.congested = 0; });
     }},
    {"rate_zero", "reports that it receives nothing",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold_record(honest, out, [](wire::SimRecord& record) {
         record.min_cum_rate = record.max_cum_rate = 0;
       });
     }},
    {"million_receivers", "reports for a million receivers, all as congested as it is itself",
     [](std::span<const std::byte> honest, std::span<std::byte> out) {
       return retold_record(honest, out, [](wire::SimRecord& record) {
         record.reports = record.receivers = kMillion;
         record.congested *= kMillion;
       });
     }},
};

}  // namespace tiercast::sim
