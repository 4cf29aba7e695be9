// Limits that the compiler keeps and the machine relies on.
#pragma once

#include <cstdint>

namespace tiercast::engine {

constexpr unsigned kStackDepth = 48;              // numbers that an expression may hold at once
constexpr unsigned kMaxLoops = 65536;             // jumps backwards in one run of an action
constexpr std::uint32_t kPortNumbers = 512;       // port numbers are bit<9>
constexpr std::uint32_t kMaxParserKeyCells = 64;  // of a parser state's select

}  // namespace tiercast::engine
