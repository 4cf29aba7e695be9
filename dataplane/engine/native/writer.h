// The parts of a generated file. Each appends C++ text to `out`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

inline std::string number(std::uint64_t value) { return std::to_string(value) + "u"; }
inline std::string cell(std::uint32_t index) { return "p[" + std::to_string(index) + "]"; }

// Statements that clear or copy `count` cells, in pieces that compilers turn into a few stores
// each. For longer ones they use instructions that take long to start.
void write_clear(const std::string& to, std::uint32_t at, std::uint32_t count, std::string& out);
void write_copy(const std::string& to, const std::string& from, std::uint32_t at,
                std::uint32_t from_at, std::uint32_t count, std::string& out);
// The function `name` for the flat code that starts at `start`.
void write_part(const Image& image, std::string_view name, std::uint32_t start, std::string& out);
// The functions of a NativePipeline that are not parts: from clear() to settle().
void write_frame_functions(const Image& image, std::string& out);
// Statements that extract the plain header of `plan` at `cursor`, or go to `end` with an error.
void write_extract(const Image& image, const HeaderPlan& plan, std::string& out);

}  // namespace tiercast::engine
