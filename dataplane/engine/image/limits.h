// Limits that the compiler enforces and the machine relies on.
#pragma once

#include <cstdint>

namespace tiercast::engine {

constexpr unsigned kStackDepth = 48;              // numbers that one expression may hold at a time
constexpr unsigned kMaxLoops = 65536;             // jumps backwards in one run of an action
constexpr std::uint32_t kPortNumbers = 512;       // port numbers are bit<9>
constexpr std::uint32_t kMaxParserKeyCells = 64;  // cells of the key of one parser state's select

}  // namespace tiercast::engine
