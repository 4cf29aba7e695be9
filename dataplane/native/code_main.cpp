// Writes the C++ text of a program's native code, as a switch would compile it; with --key, a
// header with its name instead, for the build (prebuilt.cpp).
//
//   tiercast-native-code [--key] program.json > program.cpp
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "dataplane/native/source.h"

namespace {

constexpr const char* kUsage = "usage: tiercast-native-code [--key] program.json > program.cpp\n";

}  // namespace

int main(int argc, char** argv) {
  const bool writes_key = argc > 1 && std::string_view(argv[1]) == "--key";
  if (argc != (writes_key ? 3 : 2)) {
    std::cerr << kUsage;
    return 2;
  }
  const std::string path = argv[argc - 1];
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "tiercast-native-code: " << path << ": cannot be read\n";
    return 2;
  }
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  try {
    const auto source = tiercast::native::make_source(*tiercast::engine::Program::load(json, path));
    if (source.text.empty()) {
      std::cerr << "tiercast-native-code: " << path << ": the program has no native code\n";
      return 1;
    }
    if (writes_key) {
      std::cout << "inline constexpr char kPrebuiltKey[] = \"" << source.key << "\";\n";
    } else {
      std::cout << source.text;
    }
  } catch (const std::exception& error) {
    std::cerr << "tiercast-native-code: " << error.what() << '\n';
    return 2;
  }
  return std::cout.flush() ? 0 : 2;
}
