// What became of a packet of a trial, and how it is written.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>

namespace tiercast::marking {

enum class Fate : std::uint8_t {
  kLeft = 0,
  kMarked = 1,        // it left with CE, and came without
  kDropped = 2,       // when its service began
  kDroppedEarly = 3,  // on arrival, though there was room
  kQueueFull = 4,
  kElsewhere = 5  // it never came to the port's queue
};

// Times are nanoseconds.
struct PacketRecord {
  std::int64_t arrival_ns = 0;
  std::int64_t wait_ns = -1;  // until its service began, or would have; -1: it never came to that
  std::uint32_t found = 0;  // packets that waited in its queue when it came, the one in service not
                            // counted
  std::uint32_t left_behind = 0;  // that waited there when its service began
  std::uint16_t traffic_class = 0;
  Fate fate = Fate::kElsewhere;
};

// 28 bytes, and 8 for each value, little-endian: arrival_ns and wait_ns (int64), found and
// left_behind (uint32), traffic_class (uint16), fate (uint8), a zero byte, and the values (uint64).
void write_record(std::FILE* to, const PacketRecord& record, std::span<const std::uint64_t> values);

}  // namespace tiercast::marking
