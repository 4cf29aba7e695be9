// Writes the C++ text of a program's native code, as a switch would compile it; with --key, a
// header with its name instead, for the build (prebuilt.cpp).
//
//   tiercast-native-code [--key] program.json > program.cpp
#include <iostream>
#include <string>
#include <string_view>

#include "base/standard_output.h"
#include "base/text_file.h"
#include "dataplane/native/source.h"

namespace {

constexpr const char* kUsage = "usage: tiercast-native-code [--key] program.json > program.cpp\n";

int run(int argc, char** argv) {
  const bool writes_key = argc > 1 && std::string_view(argv[1]) == "--key";
  if (argc != (writes_key ? 3 : 2)) {
    std::cerr << kUsage;
    return 2;
  }
  const std::string path = argv[argc - 1];
  try {
    const std::string json = tiercast::read_text_file(path).text;
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
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::end_output("tiercast-native-code", run(argc, argv));
}
