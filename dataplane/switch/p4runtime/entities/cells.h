// Finds the cells of indirect counters, meters and registers that a request names by id and index.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "dataplane/switch/p4runtime/entities/entities.h"
#include "dataplane/switch/p4runtime/translate/errors.h"
#include "dataplane/switch/p4runtime/translate/program_info.h"

namespace tiercast::vswitch {

// The cell that the entry's index names, or all cells if there is no index. place: for messages.
// Throws RequestError INVALID_ARGUMENT (an index below 0) or OUT_OF_RANGE.
template <class Entry>
engine::CellRange cells_of(const ProgramInfo::Array& array, const Entry& entry,
                           const std::string& place) {
  if (!entry.has_index()) return {0, array.size};
  const std::int64_t index = entry.index().index();
  if (index < 0)
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("{}: index {} is below 0", place, index));
  const auto cell = static_cast<std::uint64_t>(index);
  if (cell >= array.size)
    throw RequestError(grpc::OUT_OF_RANGE, fmt::format("{}: index {} is not one of 0 to {}", place,
                                                       index, array.size - 1));
  return {cell, cell + 1};
}

// Calls use(array, index) for the cells of the turn, of those that a read with this id selects. id
// 0 selects all arrays.
template <class Entry, class Use>
void select_cells(const std::map<std::uint32_t, ProgramInfo::Array>& arrays, std::uint32_t id,
                  const Entry& entry, CellTurn& turn, const Use& use) {
  std::uint64_t skip = turn.skip, left = turn.most;
  turn.more = false;
  for (const auto& [array_id, array] : arrays) {
    if (id != 0 && id != array_id) continue;
    const engine::CellRange cells =
        id == 0 ? engine::CellRange{0, array.size} : cells_of(array, entry, array.name);
    const std::uint64_t skipped = std::min(skip, cells.last - cells.first);
    skip -= skipped;
    for (std::uint64_t i = cells.first + skipped; i < cells.last; ++i, --left) {
      if (left == 0) {
        turn.skip += turn.most;
        turn.more = true;
        return;
      }
      use(array, i);
    }
  }
}

}  // namespace tiercast::vswitch
