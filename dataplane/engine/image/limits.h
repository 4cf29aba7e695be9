// Limits that the compiler enforces and the machine relies on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tiercast::engine {

constexpr unsigned kStackDepth = 48;              // numbers that one expression may hold at a time
constexpr unsigned kMaxLoops = 65536;             // jumps backwards in one run of an action
constexpr std::uint32_t kPortNumbers = 512;       // port numbers are bit<9>
constexpr std::uint32_t kMaxParserKeyCells = 64;  // cells of the key of one parser state's select

// How many states a parser may pass in a frame, which ends loops that consume nothing and would
// never end: (bytes + kUnmovedRounds) * (states + 1). A loop that consumes a byte a round, whatever
// states that takes, never meets it; nor does one that consumes nothing and counts up to 8 bits.
constexpr std::size_t kUnmovedRounds = 256;

}  // namespace tiercast::engine
