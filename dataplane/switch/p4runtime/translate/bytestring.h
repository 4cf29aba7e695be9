// P4Runtime's byte strings: big endian, of an int<W> in two's complement. The canonical form is the
// shortest one, of at least one byte. All but canonical_int() are about bit<W>.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiercast::vswitch {

// The canonical form of a value of `width` bits (1 or more). Missing or superfluous leading zero
// bytes are accepted. An empty string, or a value that does not fit, throws RequestError
// OUT_OF_RANGE with a text that starts with `what`.
std::string canonical(std::string_view bytes, unsigned width, std::string_view what);

// The canonical form of an int<W>, whose `width` bits (1 or more) are given as a bit<W> that fits.
std::string canonical_int(std::string_view bytes, unsigned width);

// How many bits of a value of `width` bits are 0 below the lowest bit that is set; `width` if the
// value is 0.
unsigned trailing_zeros(std::string_view bytes, unsigned width);

// The canonical mask of a prefix of 1 to width bits.
std::string prefix_mask(unsigned prefix_length, unsigned width);

// Whether a & b == a, bit by bit, for canonical strings.
bool masked_by(std::string_view value, std::string_view mask);

std::string encode_uint(std::uint64_t value);  // canonical
// Throws RequestError OUT_OF_RANGE if the value does not fit `width` (1..64) bits.
std::uint64_t decode_uint(std::string_view bytes, unsigned width, std::string_view what);

}  // namespace tiercast::vswitch
