// Makes flat code shorter without changing what it does.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Of a program without flat code, or with too much of it: no effect.
void optimize(Image& image);

}  // namespace tiercast::engine
