// Conversion between the control plane's byte strings and cells.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

// The value in cells_for(width) cells, least significant first. Empty if it needs more than `width`
// bits.
std::optional<std::vector<Cell>> to_cells(const Bytes& bytes, unsigned width);
// The shortest byte string for the value, of at least one byte.
Bytes to_bytes(const Cell* cells, unsigned width);
// Writes a value of `width` bits as whole bytes: `out` has (width + 7) / 8.
void write_network_order(const Cell* cells, unsigned width, std::span<std::byte> out);
// For messages: "0x0a01".
std::string to_hex(const Bytes& bytes);

}  // namespace tiercast::engine
