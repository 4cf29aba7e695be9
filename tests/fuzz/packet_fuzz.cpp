// Any packets through any program, with the program's constant entries. The image, its flat form
// and its native code must do the same.
//
// Input: program (1 byte), then packets: port, gap in us and length (1 byte each), then the bytes.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <iostream>

#include "dataplane/native/native_code.h"
#include "tests/fuzz/programs.h"

namespace {

using namespace tiercast;

enum class Form { kImage, kFlat, kNative };

// Compiled at the start, or found in the cache. A program without it fails at once.
const std::vector<std::shared_ptr<const engine::NativeProgram>>& native_code() {
  static const auto all = [] {
    std::vector<std::shared_ptr<const engine::NativeProgram>> found;
    for (const auto& program : fuzz::programs()) {
      const native::Code code = native::obtain(*program);
      if (code.program == nullptr) {
        std::cerr << program->name() << ": " << code.how << std::endl;
        std::abort();
      }
      found.push_back(code.program);
    }
    return found;
  }();
  return all;
}

std::vector<std::string> run(FuzzedDataProvider in, Form form) {
  const auto& all = fuzz::programs();
  fuzz::Transcript transcript;
  engine::Switch::Options options;
  options.flat_code = form != Form::kImage;
  const std::size_t chosen = in.ConsumeIntegral<std::uint8_t>() % all.size();
  engine::Switch sw(all[chosen], options, transcript);
  if (form == Form::kNative) sw.run_native(native_code()[chosen]);
  fuzz::add_ports(sw);
  fuzz::add_groups(sw);
  for (const auto& digest : sw.program().digests()) {
    (void)sw.configure_digest(digest.name, engine::DigestConfig{2, 30'000, 50'000});
  }
  std::int64_t now_ns = 0;
  while (in.remaining_bytes() > 0) {
    const auto choice = in.ConsumeIntegral<std::uint8_t>() % 6;
    const std::uint32_t port = choice == 5 ? options.cpu_port : choice;
    now_ns += in.ConsumeIntegral<std::uint8_t>() * std::int64_t{1000};
    const auto frame = in.ConsumeBytes<std::byte>(in.ConsumeIntegral<std::uint8_t>());
    sw.receive(port, frame, now_ns);
  }
  for (int events = 0; events < 1000 && sw.next_event() != engine::Switch::kNever; ++events) {
    sw.advance(sw.next_event());
  }
  return transcript.lines();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = run(FuzzedDataProvider(data, size), Form::kImage);
  if (run(FuzzedDataProvider(data, size), Form::kFlat) != image) {
    std::cerr << "flat code and image differ" << std::endl;
    std::abort();
  }
  if (run(FuzzedDataProvider(data, size), Form::kNative) != image) {
    std::cerr << "native code and image differ" << std::endl;
    std::abort();
  }
  return 0;
}
