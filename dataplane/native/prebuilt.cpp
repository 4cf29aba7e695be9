#include "dataplane/native/prebuilt.h"

#include "prebuilt_key.h"

extern "C" const tiercast::engine::NativeProgram tiercast_native_program;  // prebuilt_code.cpp

namespace tiercast::native {

std::shared_ptr<const engine::NativeProgram> prebuilt(std::string_view key) {
  if (key != kPrebuiltKey) return nullptr;
  return {std::shared_ptr<void>(), &tiercast_native_program};
}

}  // namespace tiercast::native
