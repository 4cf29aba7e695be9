#include "dataplane/native/objects.h"

#include <chrono>
#include <exception>
#include <thread>

#include "dataplane/native/cache.h"
#include "dataplane/native/compiler.h"

namespace tiercast::native {

namespace fs = std::filesystem;

namespace {

constexpr auto kMostForCompiler = std::chrono::seconds(300);
constexpr auto kLockPause = std::chrono::milliseconds(50);

Object cached(const fs::path& object) {
  if (!is_trusted(object)) return {};
  return {object, "native code from " + object.string()};
}

Object compile_into(const fs::path& folder, const fs::path& object, bool again,
                    const Compiler& compiler, const Source& source, const std::stop_token& stop) {
  FileLock lock(folder / "lock");
  const auto start = std::chrono::steady_clock::now();
  while (!lock.try_lock()) {  // another process compiles, perhaps the same
    if (stop.stop_requested()) return {{}, "stopped"};
    if (std::chrono::steady_clock::now() - start > kMostForCompiler) break;
    std::this_thread::sleep_for(kLockPause);
  }
  if (Object found = cached(object); !again && !found.path.empty()) return found;
  const std::string wrong = compile(compiler, source.text, folder, object, kMostForCompiler, stop);
  if (!wrong.empty()) return {{}, wrong};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto tenths = static_cast<long>(took.count() * 10);
  return {object, "native code, compiled by " + compiler.words[0] + " in " +
                      std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s into " +
                      object.string()};
}

Object make(const Source& source, bool again, const std::stop_token& stop) {
  const fs::path folder = cache_folder();
  if (const std::string wrong = prepare_folder(folder); !wrong.empty()) return {{}, wrong};
  const Compiler compiler = find_compiler(stop);
  if (compiler.words.empty()) return {{}, compiler.version};
  std::string named = source.key + '\n' + compiler.version;
  for (const std::string& flag : compiler_flags()) named += '\n' + flag;
  const fs::path object = folder / (digest(named) + ".so");
  if (Object found = cached(object); !again && !found.path.empty()) return found;
  return compile_into(folder, object, again, compiler, source, stop);
}

}  // namespace

Object make_object(const Source& source, bool again, const std::stop_token& stop) {
  try {
    return make(source, again, stop);
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

}  // namespace tiercast::native
