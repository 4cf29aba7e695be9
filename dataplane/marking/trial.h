// One port, with what its program and its queue do about congestion, under traffic that does not
// react: what became of each packet, and what the port knew when it decided.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "dataplane/marking/record.h"
#include "tiercast/v1/marking.pb.h"

namespace tiercast::marking {

// Calls `record` for each packet that arrived, with the values of the trial's registers when it was
// decided on (0 if it never was). Throws ConfigError, which names what is wrong and what
// is valid, and engine::LoadError.
using Record = std::function<void(const PacketRecord&, std::span<const std::uint64_t>)>;
void run(const v1::MarkingTrial& trial, const Record& record);

}  // namespace tiercast::marking
