// Reads and writes big-endian bit fields in bytes, as headers have them on the wire.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

// width: 1 to 64 bits. bit_offset: 0 is the most significant bit of data[0].
inline Cell read_bits(const std::byte* data, std::size_t bit_offset, unsigned width) {
  const std::byte* p = data + bit_offset / 8;
  const unsigned skip = bit_offset % 8;
  const unsigned bytes = (skip + width + 7) / 8;
  const unsigned tail = bytes * 8 - skip - width;
  if (bytes <= 8) {
    Cell v = 0;
    for (unsigned i = 0; i < bytes; ++i) v = v << 8 | static_cast<Cell>(p[i]);
    return v >> tail & low_mask(width);
  }
  UnsignedWord v = 0;
  for (unsigned i = 0; i < bytes; ++i) v = v << 8 | static_cast<Cell>(p[i]);
  return static_cast<Cell>(v >> tail) & low_mask(width);
}

// width: any. out[0] receives the least significant cell.
inline void read_wide(const std::byte* data, std::size_t bit_offset, unsigned width, Cell* out) {
  for (; width > kCellBits; width -= kCellBits) {
    *out++ = read_bits(data, bit_offset + width - kCellBits, kCellBits);
  }
  *out = width == 0 ? 0 : read_bits(data, bit_offset, width);
}

// Writes fields one after another.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : start_(out), out_(out) {}
  // width: 1 to 64 bits. value: below 2^width.
  void put(Cell value, unsigned width) {
    if (held_ == 0 && width % 8 == 0) {
      for (unsigned shift = width; shift > 0;) {
        shift -= 8;
        *out_++ = static_cast<std::byte>(value >> shift);
      }
      return;
    }
    UnsignedWord all = UnsignedWord{pending_} << width | value;
    unsigned bits = held_ + width;
    while (bits >= 8) {
      bits -= 8;
      *out_++ = static_cast<std::byte>(all >> bits);
    }
    pending_ = static_cast<Cell>(all) & low_mask(bits);
    held_ = bits;
  }
  // width: any. cells[0] is the least significant.
  void put_wide(const Cell* cells, unsigned width) {
    if (width == 0) return;
    unsigned i = cells_for(width) - 1;
    put(cells[i], width - i * kCellBits);
    while (i-- > 0) put(cells[i], kCellBits);
  }
  void pad_to_byte() {
    if (held_ != 0) put(0, 8 - held_);
  }
  std::byte* position() const { return out_; }
  std::size_t bytes() const { return static_cast<std::size_t>(out_ - start_); }

 private:
  std::byte* start_;
  std::byte* out_;
  Cell pending_ = 0;   // the held_ bits that do not yet fill a byte
  unsigned held_ = 0;  // 0 to 7
};

}  // namespace tiercast::engine
