// Native code that was compiled with this build: that of p4src's program.
#pragma once

#include <memory>
#include <string_view>

#include "dataplane/engine/image/native_abi.h"

namespace tiercast::native {

// Null if none was made from the text with this key (source.h).
std::shared_ptr<const engine::NativeProgram> prebuilt(std::string_view key);

}  // namespace tiercast::native
