// Control-plane byte strings to and from cells.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

// Least significant cell first, cells_for(width) of them; nothing if the value needs more bits.
std::optional<std::vector<Cell>> to_cells(const Bytes& bytes, unsigned width);
// The shortest string, at least one byte.
Bytes to_bytes(const Cell* cells, unsigned width);
// The whole bytes of a value of width bits: out has (width + 7) / 8.
void write_network_order(const Cell* cells, unsigned width, std::span<std::byte> out);
// "0x0a01", for messages.
std::string to_hex(const Bytes& bytes);

}  // namespace tiercast::engine
