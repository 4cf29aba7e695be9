#include "dataplane/native/source.h"

#include "dataplane/engine/native/generate.h"

namespace tiercast::native {

Source make_source(const engine::Program& program) {
  Source source;
  source.text = engine::generate_native(program.image(), kSymbol);
  if (!source.text.empty()) source.key = digest(source.text);
  return source;
}

std::string digest(std::string_view text) {
  using Number = engine::UnsignedWord;
  constexpr Number kPrime = Number{1} << 88 | 0x13b;
  Number hash = Number{0x6c62272e07bb0142} << 64 | 0x62b821756295c58d;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  std::string digits;
  for (int shift = 124; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[static_cast<unsigned>(hash >> shift) & 15];
  }
  return digits;
}

}  // namespace tiercast::native
