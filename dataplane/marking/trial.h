// One port, with what its program and its queue do about congestion, under traffic that does not
// react: what became of each packet, and what the port knew when it decided.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tiercast/v1/marking.pb.h"

namespace tiercast::marking {

enum class Fate : std::uint8_t {
  kLeft = 0,
  kMarked = 1,        // it left with CE, and came without
  kDropped = 2,       // when its service began, by the program
  kDroppedEarly = 3,  // on arrival, by the queue's RED
  kQueueFull = 4,
  kElsewhere = 5  // it never came to the port's queue
};

// In the order of arrival. Times are nanoseconds.
struct PacketRecord {
  std::int64_t arrival_ns = 0;
  std::int64_t wait_ns = -1;  // until its service began, or would have; -1: it never came to that
  std::uint32_t found = 0;    // packets that waited when it came, the one in service not counted
  std::uint32_t left_behind = 0;  // that waited when its service began
  std::uint16_t traffic_class = 0;
  Fate fate = Fate::kElsewhere;
};

// Calls `record` for each packet that arrived, with the values of the trial's registers when it was
// decided on (0 if it never was). Throws std::invalid_argument, which names what is wrong and what
// is valid, and engine::LoadError.
using Record = std::function<void(const PacketRecord&, std::span<const std::uint64_t>)>;
void run(const v1::MarkingTrial& trial, const Record& record);

}  // namespace tiercast::marking
