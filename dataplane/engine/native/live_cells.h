// Which cells native code clears for a new packet, and copies to a replica. They are fewer than
// those of the image (flat/flatten_liveness.cpp), because native code can ask, header by header,
// whether the fields matter: those of a header that is not there, or that leaves as it came, do
// not.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

struct LiveCells {
  std::vector<CellRun> cleared;
  std::vector<CellRun> copied;  // whatever headers there are
  // What else is copied if the header is valid.
  struct OfHeader {
    std::uint32_t header = 0;
    std::vector<CellRun> valid;  // always
    std::vector<CellRun> dirty;  // if the program may have changed a field of a received header
    std::vector<CellRun> added;  // if it was not received
  };
  std::vector<OfHeader> headers;
};

LiveCells find_native_live_cells(const Image& image);

}  // namespace tiercast::engine
