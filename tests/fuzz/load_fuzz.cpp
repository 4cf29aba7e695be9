// Any JSON is refused with a LoadError, or else loads and runs, in both forms.
#include "dataplane/engine/api/program.h"
#include "tests/fuzz/programs.h"

namespace {

using namespace tiercast;

void run(const std::shared_ptr<const engine::Program>& program, bool flat_code) {
  fuzz::Transcript transcript;
  engine::Switch::Options options;
  options.flat_code = flat_code;
  engine::Switch sw(program, options, transcript);
  fuzz::add_ports(sw);
  fuzz::add_groups(sw);
  std::vector<std::byte> frame;
  for (const std::size_t bytes : {0u, 1u, 60u, 500u}) {
    while (frame.size() < bytes) frame.push_back(static_cast<std::byte>(frame.size() % 7));
    sw.receive(1, frame, 0);
  }
  sw.advance(1'000'000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto program =
        engine::Program::load({reinterpret_cast<const char*>(data), size}, "fuzz.json");
    for (const auto& array : program->registers()) {
      if (array.size * array.width > 1u << 20) return 0;  // valid, but slow to allocate
    }
    run(program, true);
    run(program, false);
  } catch (const engine::LoadError&) {
  }
  return 0;
}
