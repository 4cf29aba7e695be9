// tiercast-stf: runs p4c's STF files on the engine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/standard_output.h"
#include "base/text_file.h"
#include "dataplane/engine/api/program.h"
#include "dataplane/native/native_code.h"
#include "dataplane/stf/runner.h"
#include "dataplane/stf/script.h"

namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

const char* const kExamples = R"(Examples:
  Every script of a folder, each with the JSON beside it (NAME.stf with NAME.json):
    tiercast-stf conformance/
  One script on another program:
    tiercast-stf router.stf --json build/router.json
  Every program as native code, which is compiled first:
    tiercast-stf --native conformance/

Exit status: 0 all passed, 1 one failed, 2 a wrong argument or a file that cannot be read.
)";

std::vector<fs::path> scripts_of(const std::vector<std::string>& arguments) {
  std::vector<fs::path> scripts;
  for (const std::string& argument : arguments) {
    if (!fs::is_directory(argument)) {
      scripts.emplace_back(argument);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(argument)) {
      if (entry.path().extension() == ".stf") found.push_back(entry.path());
    }
    if (found.empty()) throw std::runtime_error(argument + ": no *.stf in this folder");
    std::sort(found.begin(), found.end());
    scripts.insert(scripts.end(), found.begin(), found.end());
  }
  return scripts;
}

tiercast::stf::Verdict run(const fs::path& script, const fs::path& json, bool native) {
  const auto commands = tiercast::stf::parse_script(tiercast::read_text_file(script).text);
  try {
    const auto program = tiercast::engine::Program::load(tiercast::read_text_file(json).text,
                                                         json.filename().string());
    if (!native) return tiercast::stf::run_script(program, commands);
    const auto code = tiercast::native::obtain(*program);
    if (code.program == nullptr) return {false, code.how};
    return tiercast::stf::run_script(program, commands, code.program);
  } catch (const tiercast::engine::LoadError& error) {
    return {false, error.what()};
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Runs p4c's STF files (packets in, packets expected) on the engine."};
  app.set_version_flag("--version", "tiercast-stf " TIERCAST_VERSION);
  app.footer(kExamples);
  std::vector<std::string> arguments;
  std::string json;
  bool native = false;
  app.add_option("script", arguments, "STF files, or folders of them")->required();
  app.add_option("--json", json, "the program, instead of the JSON beside each script");
  app.add_flag("--native", native, "run programs as native code; without a compiler all fail");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  int passed = 0, failed = 0;
  bool bad_input = false;
  try {
    for (const fs::path& script : scripts_of(arguments)) {
      const fs::path program =
          json.empty() ? fs::path(script).replace_extension(".json") : fs::path(json);
      try {
        const auto verdict = run(script, program, native);
        ++(verdict.passed ? passed : failed);
        std::cout << (verdict.passed ? "PASS " : "FAIL ") << script.stem().string()
                  << (verdict.passed ? "" : ": " + verdict.reason) << std::endl;
      } catch (const tiercast::stf::ScriptError& error) {
        std::cerr << script.string() << ": " << error.what() << std::endl;
        bad_input = true;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return kBadInput;
  }
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return bad_input ? kBadInput : failed > 0 ? kFailed : 0;
}

}  // namespace

int main(int argc, char** argv) { return tiercast::end_output("tiercast-stf", run(argc, argv)); }
