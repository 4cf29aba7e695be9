// How paths fill in metadata.
#pragma once

#include <cstdint>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Cuts the value to the field's width, which is at most 64 bits.
inline void set(Cell* phv, const Field& field, std::uint64_t value) {
  phv[field.cell] = value & low_mask(field.width);
}

inline std::uint64_t microseconds(std::int64_t ns) { return static_cast<std::uint64_t>(ns) / 1000; }

}  // namespace tiercast::engine
