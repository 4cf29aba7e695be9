#include "dataplane/native/native_code.h"

#include <dlfcn.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>

#include "dataplane/native/cache.h"
#include "dataplane/native/compiler.h"
#include "dataplane/native/prebuilt.h"
#include "dataplane/native/source.h"

namespace tiercast::native {

namespace fs = std::filesystem;

namespace {

constexpr auto kMostForCompiler = std::chrono::seconds(300);
constexpr auto kLockPause = std::chrono::milliseconds(50);

// The object stays loaded as long as a switch uses its code.
std::shared_ptr<const engine::NativeProgram> load(const fs::path& object) {
  void* const handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const std::shared_ptr<void> library(handle, [](void* opened) { ::dlclose(opened); });
  const void* const found = ::dlsym(handle, kSymbol);
  if (found == nullptr) return nullptr;
  return {library, static_cast<const engine::NativeProgram*>(found)};
}

Code cached(const fs::path& object) {
  if (!is_trusted(object)) return {};
  return {load(object), "native code from " + object.string()};
}

Code compile_into(const fs::path& folder, const fs::path& object, const Compiler& compiler,
                  const Source& source, const std::stop_token& stop) {
  FileLock lock(folder / "lock");
  const auto start = std::chrono::steady_clock::now();
  while (!lock.try_lock()) {  // another process compiles, perhaps the same
    if (stop.stop_requested()) return {nullptr, "stopped"};
    if (std::chrono::steady_clock::now() - start > kMostForCompiler) break;
    std::this_thread::sleep_for(kLockPause);
  }
  if (Code found = cached(object); found.program != nullptr) return found;
  const std::string wrong = compile(compiler, source.text, folder, object, kMostForCompiler, stop);
  if (!wrong.empty()) return {nullptr, wrong};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto tenths = static_cast<long>(took.count() * 10);
  return {load(object), "native code, compiled by " + compiler.words[0] + " in " +
                            std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
                            " s into " + object.string()};
}

Code obtain_from(const Source& source, const std::stop_token& stop) {
  if (source.text.empty()) return {nullptr, "the program has no flat code, or too much of it"};
  if (auto code = prebuilt(source.key)) return {std::move(code), "native code of this build"};
  const fs::path folder = cache_folder();
  if (const std::string wrong = prepare_folder(folder); !wrong.empty()) return {nullptr, wrong};
  const Compiler compiler = find_compiler(stop);
  if (compiler.words.empty()) return {nullptr, compiler.version};
  std::string named = source.key + '\n' + compiler.version;
  for (const std::string& flag : compiler_flags()) named += '\n' + flag;
  const fs::path object = folder / (digest(named) + ".so");
  if (Code found = cached(object); found.program != nullptr) return found;
  Code made = compile_into(folder, object, compiler, source, stop);
  if (made.program == nullptr && made.how.starts_with("native")) {
    made.how = object.string() + ": cannot be loaded";
  }
  return made;
}

}  // namespace

Code find_prebuilt(const engine::Program& program) {
  if (auto code = prebuilt(make_source(program).key)) {
    return {std::move(code), "native code of this build"};
  }
  return {nullptr, "this build has no native code for it"};
}

Code obtain(const engine::Program& program, const std::stop_token& stop) {
  try {
    return obtain_from(make_source(program), stop);
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

BackgroundBuild::BackgroundBuild(std::shared_ptr<const engine::Program> program,
                                 std::function<void()> ready)
    : thread_([this, program = std::move(program),
               ready = std::move(ready)](const std::stop_token& stop) {
        Code code = obtain(*program, stop);
        if (stop.stop_requested()) return;
        {
          const std::lock_guard lock(mutex_);
          code_ = std::move(code);
        }
        ready();
      }) {}

std::optional<Code> BackgroundBuild::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(code_, std::nullopt);
}

}  // namespace tiercast::native
