#include "dataplane/engine/packet/value.h"

#include <algorithm>

namespace tiercast::engine {

namespace {

struct Division {
  Wide quotient, remainder;
};

// Divides magnitudes bit by bit, from the most significant one. This is rare enough to stay simple.
Division divide_magnitudes(const Wide& a, const Wide& b) {
  Division d{Wide{0}, Wide{0}};
  unsigned bits = Wide::kLimbs * kCellBits;
  while (bits > 0 && (a.limb((bits - 1) / kCellBits) >> ((bits - 1) % kCellBits) & 1) == 0) --bits;
  for (unsigned i = bits; i-- > 0;) {
    d.remainder = d.remainder << 1 | Wide{Word{a.limb(i / kCellBits) >> (i % kCellBits) & 1}};
    d.quotient = d.quotient << 1;
    if (d.remainder < b) continue;
    d.remainder = d.remainder - b;
    d.quotient = d.quotient | Wide{1};
  }
  return d;
}

Wide magnitude(const Wide& a) { return a.negative() ? -a : a; }

}  // namespace

Wide divide(const Wide& a, const Wide& b) {
  if (b == Wide{0}) return Wide{0};
  const Wide quotient = divide_magnitudes(magnitude(a), magnitude(b)).quotient;
  return a.negative() != b.negative() ? -quotient : quotient;
}

Wide remainder(const Wide& a, const Wide& b) {
  if (b == Wide{0}) return Wide{0};
  const Wide rest = divide_magnitudes(magnitude(a), magnitude(b)).remainder;
  return a.negative() ? -rest : rest;
}

std::string to_decimal(Word value) { return to_decimal(Wide{value}); }

std::string to_decimal(const Wide& value) {
  constexpr Cell kGroup = 10'000'000'000'000'000'000u;  // 10^19: prints 19 digits at a time
  std::string reversed;
  std::array<Cell, Wide::kLimbs> limbs;
  const Wide positive = magnitude(value);
  for (unsigned i = 0; i < Wide::kLimbs; ++i) limbs[i] = positive.limb(i);
  bool more = true;
  while (more) {
    UnsignedWord rest = 0;
    more = false;
    for (unsigned i = Wide::kLimbs; i-- > 0;) {
      rest = rest << kCellBits | limbs[i];
      limbs[i] = static_cast<Cell>(rest / kGroup);
      rest %= kGroup;
      more |= limbs[i] != 0;
    }
    auto group = static_cast<Cell>(rest);
    for (int digit = 0; digit < 19 && (more || group != 0); ++digit) {
      reversed += static_cast<char>('0' + group % 10);
      group /= 10;
    }
  }
  if (reversed.empty()) reversed = "0";
  if (value.negative()) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace tiercast::engine
