// Runs the machine's compiler on generated text.
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace tiercast::native {

struct Compiler {
  std::vector<std::string> words;  // its path, and arguments that come first
  std::string version;             // the first line of what --version prints
};

// $CXX if it is set (words, separated by spaces), otherwise c++, g++ or clang++, as found in $PATH.
// It has no words if there is none that works; `version` then says why.
Compiler find_compiler(const std::stop_token& stop);

// What makes a shared object of a generated file. Part of what names it in the cache.
std::vector<std::string> compiler_flags();

// Compiles `text` into the shared object `object`, in a new folder in `folder` that it removes in
// the end. Ends the compiler when `stop` is requested or `most` is over. Returns what went wrong;
// empty: nothing did.
std::string compile(const Compiler& compiler, const std::string& text,
                    const std::filesystem::path& folder, const std::filesystem::path& object,
                    std::chrono::seconds most, const std::stop_token& stop);

}  // namespace tiercast::native
