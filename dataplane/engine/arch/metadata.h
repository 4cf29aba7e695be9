// How paths fill in metadata.
#pragma once

#include <cstdint>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A field of at most 64 bits, with what a path needs of it for each packet close together.
struct MetadataField {
  explicit MetadataField(const Field& field) : cell(field.cell), mask(low_mask(field.width)) {}
  std::uint32_t cell;
  Cell mask;
};

// Cuts the value to the field's width.
inline void set(Cell* phv, const MetadataField& field, std::uint64_t value) {
  phv[field.cell] = value & field.mask;
}
inline void set(Cell* phv, const Field& field, std::uint64_t value) {
  phv[field.cell] = value & low_mask(field.width);
}

inline std::uint64_t microseconds(std::int64_t ns) { return static_cast<std::uint64_t>(ns) / 1000; }

}  // namespace tiercast::engine
