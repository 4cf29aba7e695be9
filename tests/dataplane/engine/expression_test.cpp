// P4's arithmetic, as the program expressions.p4 computes it, compared with C++'s.
#include <array>
#include <random>

#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using U128 = unsigned __int128;

struct Operands {
  std::uint8_t a, b;
  std::int16_t c, d;
  std::uint64_t e, f;
  U128 g, h;
};

constexpr std::size_t kOperandBytes = 1 + 2 + 4 + 16 + 32;
constexpr std::size_t kResultBytes = 11 + 2 + 1 + 6 + 1 + 16 + 1 + 64 + 1 + 16;

Frame operand_frame(const Operands& o) {
  FrameBuilder b;
  b.put(2, 8).put(o.a, 8).put(o.b, 8);
  b.put(static_cast<std::uint16_t>(o.c), 16).put(static_cast<std::uint16_t>(o.d), 16);
  b.put(o.e, 64).put(o.f, 64);
  b.put(static_cast<std::uint64_t>(o.g >> 64), 64).put(static_cast<std::uint64_t>(o.g), 64);
  b.put(static_cast<std::uint64_t>(o.h >> 64), 64).put(static_cast<std::uint64_t>(o.h), 64);
  return b.pad_to(kOperandBytes + kResultBytes).take();
}

std::uint8_t bit(bool value) { return value ? 1 : 0; }

void check(Bench& bench, const Operands& o) {
  bench.out.sent.clear();
  bench.receive(1, operand_frame(o));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  const Frame& frame = bench.out.sent[0].frame;
  ASSERT_EQ(frame.size(), kOperandBytes + kResultBytes);
  std::size_t at = kOperandBytes;
  const auto next = [&](std::size_t bytes) {
    U128 value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value << 8 | std::to_integer<unsigned>(frame[at++]);
    }
    return value;
  };
  const auto expect = [&](const char* what, std::size_t bytes, U128 wanted) {
    const U128 got = next(bytes);
    EXPECT_TRUE(got == wanted) << what << " of a=" << +o.a << " b=" << +o.b << " c=" << o.c
                               << " d=" << o.d << " e=" << o.e << " f=" << o.f << ": got "
                               << static_cast<std::uint64_t>(got) << ", expected "
                               << static_cast<std::uint64_t>(wanted);
  };
  const auto u8 = [](int v) { return static_cast<std::uint8_t>(v); };
  const auto u16 = [](int v) { return static_cast<std::uint16_t>(v); };
  expect("a + b", 1, u8(o.a + o.b));
  expect("a - b", 1, u8(o.a - o.b));
  expect("a * b", 1, u8(o.a * o.b));
  expect("a |+| b", 1, std::min(255, o.a + o.b));
  expect("a |-| b", 1, std::max(0, o.a - o.b));
  expect("a << b", 1, o.b >= 8 ? 0 : u8(o.a << o.b));
  expect("a >> b", 1, o.b >= 8 ? 0 : u8(o.a >> o.b));
  expect("~a", 1, u8(~o.a));
  expect("-a", 1, u8(-o.a));
  expect("bits", 1, u8((o.a & o.b) | (o.a ^ 0x0f)));
  expect("choice", 1, o.a > o.b && o.a != 77 ? 1 : 2);
  expect("a ++ b", 2, u16(o.a << 8 | o.b));
  expect("a[6:3]", 1, (o.a >> 3) & 0xf);
  expect("c + d", 2, u16(o.c + o.d));
  expect("c >> 2", 2, u16(o.c >> 2));
  expect("c |+| d", 2, u16(std::clamp(o.c + o.d, -32768, 32767)));
  expect("c < d", 1, bit(o.c < o.d));
  expect("e + f", 8, o.e + o.f);
  expect("e * f", 8, o.e * o.f);
  expect("e < f", 1, bit(o.e < o.f));
  expect("g + h", 16, o.g + o.h);
  expect("g & h", 16, o.g & o.h);
  expect("g >> 68", 16, o.g >> 68);
  expect("copy of h", 16, o.h);
  expect("g < h", 1, bit(o.g < o.h));
  expect("e << 64", 16, U128{o.e} << 64);
}

TEST(Expressions, AtTheEdges) {
  Bench bench("expressions");
  for (const std::uint8_t a : std::to_array<std::uint8_t>({0, 1, 127, 128, 255})) {
    for (const std::uint8_t b : std::to_array<std::uint8_t>({0, 1, 7, 8, 255})) {
      for (const std::int16_t c : std::to_array<std::int16_t>({-32768, -1, 0, 32767})) {
        check(bench, {a, b, c, static_cast<std::int16_t>(-1 - c), ~std::uint64_t{0} - a,
                      std::uint64_t{1} << 63 | b, ~U128{0} - b, U128{1} << 127 | a});
      }
    }
  }
}

TEST(Expressions, AtRandom) {
  Bench bench("expressions");
  std::mt19937_64 random(4);
  for (int i = 0; i < 2000; ++i) {
    check(bench,
          {static_cast<std::uint8_t>(random()), static_cast<std::uint8_t>(random() >> random() % 8),
           static_cast<std::int16_t>(random()), static_cast<std::int16_t>(random()), random(),
           random(), U128{random()} << 64 | random(), U128{random()} << 64 | random()});
  }
}

TEST(Parser, LookaheadSelectsAndShortPacketsStopParsing) {
  Bench bench("expressions");
  Operands o{1, 2, 3, 4, 5, 6, 7, 8};
  Frame marked = operand_frame(o);
  marked[kOperandBytes] = std::byte{0xde};
  marked[kOperandBytes + 1] = std::byte{0xad};
  bench.receive(1, marked);
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(bench.out.sent[0].frame, marked);  // the results were part of the payload

  // The operands are in the frame, the results are not. The bytes that are there stay unchanged.
  Frame cut = operand_frame(o);
  cut.resize(kOperandBytes + 10);
  bench.receive(1, cut);
  ASSERT_EQ(bench.out.sent.size(), 2u);
  EXPECT_EQ(bench.out.sent[1].frame, cut);
}

}  // namespace
}  // namespace tiercast::engine
