// P4Runtime's byte strings for bit<W>: big endian; canonical is the shortest form, at least a byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiercast::vswitch {

// The canonical form of a value of `width` bits (1 or more). Missing or superfluous leading zero
// bytes are accepted; an empty string or a value that does not fit throws RequestError
// OUT_OF_RANGE, beginning with `what`.
std::string canonical(std::string_view bytes, unsigned width, std::string_view what);

// Number of bits from the lowest set bit down, of a value of `width` bits; `width` if it is 0.
unsigned trailing_zeros(std::string_view bytes, unsigned width);

// The canonical mask of a prefix of 1 to width bits.
std::string prefix_mask(unsigned prefix_length, unsigned width);

// A bitwise a & b == a, of canonical strings.
bool masked_by(std::string_view value, std::string_view mask);

std::string encode_uint(std::uint64_t value);  // canonical
// Throws RequestError OUT_OF_RANGE if it does not fit `width` (1..64) bits.
std::uint64_t decode_uint(std::string_view bytes, unsigned width, std::string_view what);

}  // namespace tiercast::vswitch
