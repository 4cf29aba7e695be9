// Makes C++ text of an image's flat code: one function for each part, with the places of fields,
// the tables' keys and the headers' layouts as constants. Compiled and loaded, it does to every
// packet what the flat machine does; what is not generated calls the interpreter (NativeContext).
#pragma once

#include <string>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// The text of a complete C++20 file that exports `symbol`, an extern "C" constant NativeProgram.
// Empty if the image has no flat code, or so much that compiling it would take minutes.
std::string generate_native(const Image& image, const std::string& symbol);

}  // namespace tiercast::engine
