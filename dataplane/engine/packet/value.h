// The numbers that operations work on. bmv2's expressions have no width: they are computed with
// infinite precision and cut to a field's width when they are stored. Word gives the same results
// for operands of at most 64 bits (p4c masks every intermediate result), and Wide for operands of
// up to 2048 bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tiercast::engine {

using Cell = std::uint64_t;
__extension__ using Word = __int128;
__extension__ using UnsignedWord = unsigned __int128;

constexpr unsigned kCellBits = 64;
constexpr unsigned kMaxFieldBits = 2048;  // p4c's own limit

constexpr unsigned cells_for(unsigned bits) { return (bits + kCellBits - 1) / kCellBits; }
constexpr Cell low_mask(unsigned bits) { return bits >= 64 ? ~Cell{0} : (Cell{1} << bits) - 1; }

// Two's complement, with room for a carry and a sign above the widest field.
class Wide {
 public:
  static constexpr unsigned kLimbs = kMaxFieldBits / kCellBits + 2;

  Wide() = default;
  Wide(Word value) {  // NOLINT: implicit, like Word's own conversions
    limbs_[0] = static_cast<Cell>(value);
    limbs_[1] = static_cast<Cell>(value >> 64);
    for (unsigned i = 2; i < kLimbs; ++i) limbs_[i] = value < 0 ? ~Cell{0} : 0;
  }
  Wide(int value) : Wide(Word{value}) {}  // NOLINT
  static Wide from_cells(std::span<const Cell> cells) {
    Wide r{0};
    for (unsigned i = 0; i < cells.size() && i < kLimbs; ++i) r.limbs_[i] = cells[i];
    return r;
  }

  Cell limb(unsigned i) const { return limbs_[i]; }
  bool negative() const { return limbs_[kLimbs - 1] >> 63 != 0; }
  explicit operator Word() const {
    return static_cast<Word>(UnsignedWord{limbs_[1]} << 64 | limbs_[0]);
  }

  friend Wide operator~(const Wide& a) {
    return map(a, a, [](Cell x, Cell) { return ~x; });
  }
  friend Wide operator&(const Wide& a, const Wide& b) {
    return map(a, b, [](Cell x, Cell y) { return x & y; });
  }
  friend Wide operator|(const Wide& a, const Wide& b) {
    return map(a, b, [](Cell x, Cell y) { return x | y; });
  }
  friend Wide operator^(const Wide& a, const Wide& b) {
    return map(a, b, [](Cell x, Cell y) { return x ^ y; });
  }
  friend Wide operator+(const Wide& a, const Wide& b) { return add(a, b, 0); }
  friend Wide operator-(const Wide& a, const Wide& b) { return add(a, ~b, 1); }
  friend Wide operator-(const Wide& a) { return Wide{0} - a; }
  friend Wide operator*(const Wide& a, const Wide& b) {
    Wide r{0};
    for (unsigned i = 0; i < kLimbs; ++i) {
      Cell carry = 0;
      for (unsigned j = 0; i + j < kLimbs; ++j) {
        const UnsignedWord t = UnsignedWord{a.limbs_[i]} * b.limbs_[j] + r.limbs_[i + j] + carry;
        r.limbs_[i + j] = static_cast<Cell>(t);
        carry = static_cast<Cell>(t >> 64);
      }
    }
    return r;
  }
  friend Wide operator<<(const Wide& a, unsigned n) {
    Wide r{0};
    const unsigned limbs = n / 64, bits = n % 64;
    for (unsigned i = kLimbs; i-- > limbs;) {
      r.limbs_[i] = a.limbs_[i - limbs] << bits;
      if (bits != 0 && i > limbs) r.limbs_[i] |= a.limbs_[i - limbs - 1] >> (64 - bits);
    }
    return r;
  }
  friend Wide operator>>(const Wide& a, unsigned n) {  // arithmetic shift
    const Cell fill = a.negative() ? ~Cell{0} : 0;
    Wide r{0};
    const unsigned limbs = n / 64, bits = n % 64;
    for (unsigned i = 0; i < kLimbs; ++i) {
      const Cell low = i + limbs < kLimbs ? a.limbs_[i + limbs] : fill;
      const Cell high = i + limbs + 1 < kLimbs ? a.limbs_[i + limbs + 1] : fill;
      r.limbs_[i] = bits == 0 ? low : low >> bits | high << (64 - bits);
    }
    return r;
  }
  friend bool operator==(const Wide&, const Wide&) = default;
  friend bool operator<(const Wide& a, const Wide& b) {
    if (a.negative() != b.negative()) return a.negative();
    for (unsigned i = kLimbs; i-- > 0;) {
      if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] < b.limbs_[i];
    }
    return false;
  }

 private:
  template <class F>
  static Wide map(const Wide& a, const Wide& b, F f) {
    Wide r;
    for (unsigned i = 0; i < kLimbs; ++i) r.limbs_[i] = f(a.limbs_[i], b.limbs_[i]);
    return r;
  }
  static Wide add(const Wide& a, const Wide& b, Cell carry) {
    Wide r;
    for (unsigned i = 0; i < kLimbs; ++i) {
      const UnsignedWord t = UnsignedWord{a.limbs_[i]} + b.limbs_[i] + carry;
      r.limbs_[i] = static_cast<Cell>(t);
      carry = static_cast<Cell>(t >> 64);
    }
    return r;
  }
  std::array<Cell, kLimbs> limbs_;
};

// Operations whose Word form needs care: overflow wraps around, and a shift may exceed the type's
// width.
inline Word add(Word a, Word b) {
  return static_cast<Word>(static_cast<UnsignedWord>(a) + static_cast<UnsignedWord>(b));
}
inline Word subtract(Word a, Word b) {
  return static_cast<Word>(static_cast<UnsignedWord>(a) - static_cast<UnsignedWord>(b));
}
inline Word multiply(Word a, Word b) {
  return static_cast<Word>(static_cast<UnsignedWord>(a) * static_cast<UnsignedWord>(b));
}
inline Wide add(const Wide& a, const Wide& b) { return a + b; }
inline Wide subtract(const Wide& a, const Wide& b) { return a - b; }
inline Wide multiply(const Wide& a, const Wide& b) { return a * b; }

// The quotient is rounded towards 0. Division by 0 gives 0.
inline Word divide(Word a, Word b) {
  if (b == 0) return 0;
  if (b == -1) return subtract(0, a);  // the smallest number has no positive counterpart
  return a / b;
}
inline Word remainder(Word a, Word b) { return b == 0 || b == -1 ? 0 : a % b; }
Wide divide(const Wide& a, const Wide& b);
Wide remainder(const Wide& a, const Wide& b);

std::string to_decimal(Word value);
std::string to_decimal(const Wide& value);

// n: any value. A negative shift counts as 0; P4 forbids it anyway.
template <class Value>
Value shift_left(const Value& a, Word n) {
  constexpr int kBits = sizeof(Value) * 8;
  if (n <= 0) return a;
  if (n >= kBits) return Value{0};
  if constexpr (sizeof(Value) == sizeof(Word)) {
    return static_cast<Word>(static_cast<UnsignedWord>(a) << static_cast<unsigned>(n));
  } else {
    return a << static_cast<unsigned>(n);
  }
}
template <class Value>
Value shift_right(const Value& a, Word n) {
  constexpr int kBits = sizeof(Value) * 8;
  if (n <= 0) return a;
  return a >> static_cast<unsigned>(n >= kBits ? kBits - 1 : n);
}

// 2^bits - 1, for `bits` up to the type's width.
template <class Value>
Value ones(unsigned bits) {
  return subtract(shift_left(Value{1}, Word{bits}), Value{1});
}
// The low `bits` bits as a signed value (bmv2's two_comp_mod).
template <class Value>
Value sign_extend(const Value& a, unsigned bits) {
  const Value low = a & ones<Value>(bits);
  const Value sign = shift_left(Value{1}, Word{bits} - 1);
  return subtract(low ^ sign, sign);
}

}  // namespace tiercast::engine
