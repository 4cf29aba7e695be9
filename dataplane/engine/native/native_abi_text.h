// The text of image/native_abi.h, with which every generated file begins.
#pragma once

namespace tiercast::engine {

extern const char* const kNativeAbiText;

}  // namespace tiercast::engine
