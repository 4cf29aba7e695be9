// Numbers and bit fields, compared with plain arithmetic where that is possible.
#include "dataplane/engine/packet/value.h"

#include <gtest/gtest.h>

#include <random>

#include "dataplane/engine/control/byte_values.h"
#include "dataplane/engine/packet/bits.h"

namespace tiercast::engine {
namespace {

TEST(Wide, AgreesWithWord) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Word a = static_cast<Word>(static_cast<std::int64_t>(random())) >> (random() % 60);
    const Word b = static_cast<Word>(static_cast<std::int64_t>(random())) >> (random() % 60);
    const auto n = static_cast<unsigned>(random() % 100);
    const Wide x{a}, y{b};
    EXPECT_TRUE(static_cast<Word>(x + y) == a + b);
    EXPECT_TRUE(static_cast<Word>(x - y) == a - b);
    EXPECT_TRUE(static_cast<Word>(x * y) == a * b);
    EXPECT_TRUE(static_cast<Word>(x & y) == (a & b));
    EXPECT_TRUE(static_cast<Word>(x ^ y) == (a ^ b));
    EXPECT_TRUE(static_cast<Word>(~x) == ~a);
    EXPECT_TRUE(static_cast<Word>(shift_right(x, Word{n})) == shift_right(a, Word{n}));
    EXPECT_TRUE(static_cast<Word>(shift_left(x, Word{n})) == shift_left(a, Word{n}));
    EXPECT_EQ(x < y, a < b);
    EXPECT_EQ(x == y, a == b);
  }
}

TEST(Wide, ShiftsAcrossItsWholeWidth) {
  const Wide one{1};
  for (unsigned n : {0u, 1u, 63u, 64u, 65u, 1000u, 2047u, 2111u}) {
    EXPECT_TRUE(((one << n) >> n) == one || n >= Wide::kLimbs * 64 - 1) << n;
  }
  EXPECT_TRUE(shift_left(one, Word{1} << 100) == Wide{0});
  EXPECT_TRUE(shift_right(Wide{-5}, Word{1} << 100) == Wide{-1});
}

TEST(Word, ShiftsBeyondItsWidth) {
  EXPECT_TRUE(shift_left(Word{1}, 200) == 0);
  EXPECT_TRUE(shift_right(Word{1}, 200) == 0);
  EXPECT_TRUE(shift_right(Word{-1}, 200) == -1);
}

TEST(SignExtend, IsTwosComplement) {  // the examples of bmv2's JSON format
  EXPECT_TRUE(sign_extend(Word{257}, 8) == 1);
  EXPECT_TRUE(sign_extend(Word{-129}, 8) == 127);
  EXPECT_TRUE(sign_extend(Wide{255}, 8) == Wide{-1});
}

TEST(Bits, ReadWhatWasWritten) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    std::byte buffer[256]{};
    BitWriter writer(buffer);
    std::vector<std::pair<Cell, unsigned>> fields;
    for (int i = 0; i < 20; ++i) {
      const unsigned width = 1 + random() % 64;
      fields.emplace_back(random() & low_mask(width), width);
      writer.put(fields.back().first, width);
    }
    writer.pad_to_byte();
    std::size_t bit = 0;
    for (const auto& [value, width] : fields) {
      ASSERT_EQ(read_bits(buffer, bit, width), value) << "bit " << bit << " width " << width;
      bit += width;
    }
    EXPECT_EQ(writer.bytes(), (bit + 7) / 8);
  }
}

TEST(Bits, WideFieldsAreLeastSignificantCellFirst) {
  std::byte buffer[17];
  for (unsigned i = 0; i < 17; ++i) buffer[i] = static_cast<std::byte>(i);
  Cell cells[2];
  read_wide(buffer, 8, 128, cells);
  EXPECT_EQ(cells[1], 0x0102030405060708u);
  EXPECT_EQ(cells[0], 0x090a0b0c0d0e0f10u);
}

TEST(ByteValues, CanonicalFormIsShortest) {
  const auto cells = to_cells(Bytes("\0\0\x01\x02", 4), 32);
  ASSERT_TRUE(cells);
  EXPECT_EQ(to_bytes(cells->data(), 32), "\x01\x02");
  const Cell zero = 0;
  EXPECT_EQ(to_bytes(&zero, 9), Bytes(1, '\0'));
  EXPECT_FALSE(to_cells("\x02\x01", 9));
  EXPECT_TRUE(to_cells("\x01\xff", 9));
  EXPECT_FALSE(to_cells(Bytes(17, '\x01'), 128));
}

TEST(Value, DivisionRoundsTowardsZeroAndByZeroGivesZero) {
  const Word lowest = shift_left(Word{1}, 127);
  const Word numbers[] = {0, 1, 2, 7, -1, -7, 10'000'000'000, lowest, ~lowest};
  for (const Word a : numbers) {
    for (const Word b : numbers) {
      EXPECT_EQ(static_cast<Word>(divide(Wide{a}, Wide{b})), divide(a, b));
      EXPECT_EQ(static_cast<Word>(remainder(Wide{a}, Wide{b})), remainder(a, b));
      if (b == 0) continue;
      EXPECT_EQ(add(multiply(divide(a, b), b), remainder(a, b)), a);
    }
  }
  const Wide big = Wide{1} << 2000;
  EXPECT_EQ(divide(big, Wide{1} << 1990), Wide{1024});
  EXPECT_EQ(remainder(big + Wide{5}, Wide{1} << 1990), Wide{5});
}

TEST(Value, DecimalText) {
  EXPECT_EQ(to_decimal(Word{0}), "0");
  EXPECT_EQ(to_decimal(Word{-120}), "-120");
  EXPECT_EQ(to_decimal(Wide{1} << 128), "340282366920938463463374607431768211456");
  EXPECT_EQ(to_decimal(shift_left(Word{1}, 127)), "-170141183460469231731687303715884105728");
  Wide ten_to_40{1};
  for (int n = 0; n < 40; ++n) ten_to_40 = ten_to_40 * Wide{10};
  EXPECT_EQ(to_decimal(ten_to_40), "1" + std::string(40, '0'));
}

}  // namespace
}  // namespace tiercast::engine
