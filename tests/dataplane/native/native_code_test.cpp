// Native code treats every packet as the program's image does. Needs the compiler that built this.
#include "dataplane/native/native_code.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/dataplane/engine/random_traffic.h"

namespace tiercast::native {
namespace {

namespace fs = std::filesystem;
using engine::any_program;

std::vector<std::string> programs() {
  std::vector<std::string> names = {"tiercast", "tiercast_psa"};
  for (const auto& file : fs::directory_iterator(TIERCAST_TEST_P4)) {
    if (file.path().extension() == ".json") names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class NativeCode : public ::testing::TestWithParam<std::string> {};

TEST_P(NativeCode, DoesWhatTheImageDoes) {
  const auto program = any_program(GetParam());
  const Code code = obtain(*program);
  ASSERT_NE(code.program, nullptr) << code.how;
  // Some programs drop all of these frames; then their state is compared.
  engine::expect_same(program,
                      {.prepare = [&](engine::Switch& sw) { sw.run_native(code.program); }},
                      {.flat_code = false}, 0);
}

INSTANTIATE_TEST_SUITE_P(Programs, NativeCode, ::testing::ValuesIn(programs()),
                         [](const auto& one) { return one.param; });

// A switch may change over between any two packets, also while some wait in its queues.
TEST(NativeCodeSwap, ChangesNothing) {
  const auto program = any_program("tiercast");
  const Code code = obtain(*program);
  ASSERT_NE(code.program, nullptr) << code.how;
  class Swapper final : public engine::TraceSink {
   public:
    Swapper(engine::Switch& sw, std::shared_ptr<const engine::NativeProgram> code)
        : sw_(sw), code_(std::move(code)) {}
    // Asked before a packet enters, and never wants one.
    bool wants(std::uint32_t, std::span<const std::byte>) override {
      if (++frames_ % 50 == 0) sw_.run_native(frames_ % 100 == 0 ? code_ : nullptr);
      return false;
    }
    void event(const engine::TraceEvent&) override {}

   private:
    engine::Switch& sw_;
    std::shared_ptr<const engine::NativeProgram> code_;
    std::uint64_t frames_ = 0;
  };
  std::unique_ptr<Swapper> swapper;
  engine::expect_same(program,
                      {.prepare =
                           [&](engine::Switch& sw) {
                             swapper = std::make_unique<Swapper>(sw, code.program);
                             sw.set_trace(swapper.get());
                           }},
                      {.flat_code = false});
}

TEST(NativeCodeOfThisBuild, IsThatOfOurProgram) {
  EXPECT_NE(find_prebuilt(*any_program("tiercast")).program, nullptr);
  EXPECT_EQ(find_prebuilt(*any_program("router")).program, nullptr);
}

}  // namespace
}  // namespace tiercast::native
