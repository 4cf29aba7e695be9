// Any text is refused with a ScriptError, or else runs. Input: program (1 byte), then the script.
#include "dataplane/stf/runner.h"
#include "tests/fuzz/programs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tiercast;
  if (size == 0) return 0;
  const auto& all = fuzz::programs();
  try {
    const auto script = stf::parse_script({reinterpret_cast<const char*>(data) + 1, size - 1});
    (void)stf::run_script(all[data[0] % all.size()], script);
  } catch (const stf::ScriptError&) {
  }
  return 0;
}
