#include "dataplane/engine/control/byte_values.h"

#include <algorithm>

namespace tiercast::engine {

std::optional<std::vector<Cell>> to_cells(const Bytes& bytes, unsigned width) {
  std::vector<Cell> cells(cells_for(width));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - 1 - i]);
    if (byte == 0) continue;
    if (i / 8 >= cells.size()) return std::nullopt;
    cells[i / 8] |= Cell{byte} << (i % 8 * 8);
  }
  if ((cells.back() & ~low_mask(width - static_cast<unsigned>(cells.size() - 1) * kCellBits)) !=
      0) {
    return std::nullopt;
  }
  return cells;
}

Bytes to_bytes(const Cell* cells, unsigned width) {
  Bytes out;
  for (unsigned i = (width + 7) / 8; i-- > 0;) {
    const auto byte = static_cast<char>(cells[i / 8] >> (i % 8 * 8) & 0xff);
    if (byte != 0 || !out.empty() || i == 0) out.push_back(byte);
  }
  return out;
}

void write_network_order(const Cell* cells, unsigned width, std::span<std::byte> out) {
  for (unsigned i = (width + 7) / 8; i-- > 0;) {
    out[out.size() - 1 - i] = static_cast<std::byte>(cells[i / 8] >> (i % 8 * 8) & 0xff);
  }
}

std::string to_hex(const Bytes& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string out = "0x";
  for (unsigned char byte : bytes) {
    out.push_back(digits[byte >> 4]);
    out.push_back(digits[byte & 15]);
  }
  return out;
}

}  // namespace tiercast::engine
