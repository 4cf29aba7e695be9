#include "dataplane/native/native_code.h"

#include <dlfcn.h>

#include <exception>
#include <filesystem>
#include <utility>

#include "dataplane/native/builder.h"
#include "dataplane/native/objects.h"
#include "dataplane/native/prebuilt.h"
#include "dataplane/native/source.h"

namespace tiercast::native {

namespace fs = std::filesystem;

namespace {

// The object stays loaded as long as a switch uses its code.
std::shared_ptr<const engine::NativeProgram> load(const fs::path& object) {
  void* const handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const std::shared_ptr<void> library(handle, [](void* opened) { ::dlclose(opened); });
  const void* const found = ::dlsym(handle, kSymbol);
  if (found == nullptr) return nullptr;
  return {library, static_cast<const engine::NativeProgram*>(found)};
}

Object object_of(const Source& source, bool again, const std::stop_token& stop,
                 const Builder* builder) {
  return builder != nullptr ? builder->make_object(source, again, stop)
                            : make_object(source, again, stop);
}

Code obtain_from(const Source& source, const std::stop_token& stop, const Builder* builder) {
  if (source.text.empty()) return {nullptr, "the program has no flat code, or too much of it"};
  if (auto code = prebuilt(source.key)) return {std::move(code), "native code of this build"};
  Object object;
  for (const bool again : {false, true}) {  // what is in the cache may be damaged
    object = object_of(source, again, stop, builder);
    if (object.path.empty()) return {nullptr, object.how};
    if (auto code = load(object.path)) return {std::move(code), object.how};
  }
  return {nullptr, object.path.string() + ": cannot be loaded"};
}

}  // namespace

Code find_prebuilt(const engine::Program& program) {
  if (auto code = prebuilt(make_source(program).key)) {
    return {std::move(code), "native code of this build"};
  }
  return {nullptr, "this build has no native code for it"};
}

Code obtain(const engine::Program& program, const std::stop_token& stop, const Builder* builder) {
  try {
    return obtain_from(make_source(program), stop, builder);
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

BackgroundBuild::BackgroundBuild(std::shared_ptr<const engine::Program> program,
                                 std::function<void()> ready, const Builder* builder)
    : thread_([this, builder, program = std::move(program),
               ready = std::move(ready)](const std::stop_token& stop) {
        Code code = obtain(*program, stop, builder);
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
