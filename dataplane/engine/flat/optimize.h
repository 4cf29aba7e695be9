// Shortens flat code without changing what it does.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Does nothing for a program without flat code, or with too much of it.
void optimize(Image& image);

}  // namespace tiercast::engine
