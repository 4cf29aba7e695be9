// The C++ text of a program's native code, and the name of what a compiler makes of it.
#pragma once

#include <string>
#include <string_view>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/packet/value.h"

namespace tiercast::native {

inline constexpr const char* kSymbol = "tiercast_native_program";

struct Source {
  std::string text;  // exports kSymbol; empty: the program has no native code
  std::string key;   // 32 hexadecimal digits that stand for the text
};

Source make_source(const engine::Program& program);
// 128 bits of FNV-1a (Fowler, Noll and Vo), in hexadecimal digits.
std::string digest(std::string_view text);

}  // namespace tiercast::native
