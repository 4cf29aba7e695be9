// Compares flat code with the image that it was made from.
#include <gtest/gtest.h>

#include <random>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/image/image.h"
#include "tests/dataplane/engine/random_traffic.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

// Traces every other frame.
class EveryOther : public TraceSink {
 public:
  bool wants(std::uint32_t, std::span<const std::byte>) override { return frames_++ % 2 == 0; }
  void event(const TraceEvent& event) override {
    ++events;
    last = to_json(event);
  }
  std::uint64_t events = 0;
  std::string last;

 private:
  std::uint64_t frames_ = 0;
};

class FlatCode : public ::testing::TestWithParam<const char*> {};

TEST_P(FlatCode, DoesWhatItsImageDoes) {
  const auto program = any_program(GetParam());
  ASSERT_TRUE(program->image().flat.present());
  expect_same(program, {.flat_code = true}, {.flat_code = false});
}

TEST_P(FlatCode, DoesTheSameWhenPacketsAreTraced) {
  EveryOther sink;
  expect_same(any_program(GetParam()),
              {.flat_code = true, .prepare = [&](Switch& sw) { sw.set_trace(&sink); }},
              {.flat_code = false});
  EXPECT_GT(sink.events, 10'000u) << sink.last;
}

TEST_P(FlatCode, DoesTheSameInLentMemory) {
  const auto program = any_program(GetParam());
  expect_same(program, {.lends = true}, {});
  expect_same(program, {.flat_code = false, .lends = true}, {.flat_code = false});
}

INSTANTIATE_TEST_SUITE_P(Programs, FlatCode,
                         ::testing::Values("tiercast", "router", "matching", "expressions", "again",
                                           "probe", "tiercast_psa", "psa_paths", "psa_externs"),
                         [](const auto& one) { return std::string(one.param); });

// tiercast.p4 drops packets with a wrong IPv4 checksum. Both forms verify it on the header's bytes,
// so comparing the forms would prove nothing. RFC 1071 is the reference, also where the sum is 0 or
// 0xffff.
TEST(Checksum, IsVerifiedAsRfc1071Says) {
  for (const bool flat : {true, false}) {
    SCOPED_TRACE(flat);
    Recorder out;
    Switch::Options options;
    options.flat_code = flat;
    Switch sw(any_program("tiercast"), options, out);
    for (std::uint32_t port : {1u, 2u}) EXPECT_OK(sw.set_port(port, {}));
    EXPECT_OK(sw.insert_entry("ipv4_host", {{FieldMatch::exact(big_endian(0x0a000002, 4))},
                                            0,
                                            {"forward", {big_endian(2, 2), big_endian(7, 6)}},
                                            {}}));
    std::mt19937_64 random(3);
    int right = 0, wrong = 0;
    for (int n = 0; n < 4000; ++n) {
      std::uint64_t words[] = {0x4500, 60,     random() & 0xffff, 0,      0x4006,
                               0,      0x0a00, random() & 0xffff, 0x0a00, 2};
      const auto folded = [&] {
        std::uint64_t sum = 0;
        for (std::uint64_t w : words) sum += w;
        while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
        return sum;
      };
      // Now and then the other words add up to 0xffff, so that the checksum is 0.
      if (n % 4 == 0) words[2] = (words[2] + 0xffff - folded()) & 0xffff;
      const std::uint64_t good = ~folded() & 0xffff;
      const std::uint64_t choices[] = {good, good ^ 1ull << random() % 16, ~good & 0xffff, 0,
                                       0xffff};
      words[5] = choices[random() % 5];
      const bool forwards = words[5] == good;
      FrameBuilder f;
      f.put(0x020000000001, 48).put(0x020000000002, 48).put(0x0800, 16);
      for (std::uint64_t w : words) f.put(w, 16);
      const std::size_t sent = out.sent.size();
      sw.receive(1, f.pad_to(74).take(), n);
      ASSERT_EQ(out.sent.size() - sent, forwards ? 1u : 0u)
          << "checksum " << words[5] << ", right: " << good << ", identification " << words[2];
      ++(forwards ? right : wrong);
    }
    EXPECT_GT(right, 500);
    EXPECT_GT(wrong, 500);
  }
}

}  // namespace
}  // namespace tiercast::engine
