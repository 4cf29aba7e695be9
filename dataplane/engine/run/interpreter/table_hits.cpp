#include "dataplane/engine/run/interpreter/table_hits.h"

#include <algorithm>

namespace tiercast::engine {

void TableHits::complete(const Table& layout, MatchTable& table, PacketState& packet,
                         MatchTable::Outcome& outcome) {
  MatchTable::Entry& entry = *outcome.special;
  if (layout.direct_meter != kNone) {
    const std::uint64_t units =
        image_.meters[layout.direct_meter].bytes ? packet.received_length : 1;
    packet.phv[layout.meter_target.cell] =
        image_.meter_colours[entry.meter.mark(units, externs_.now_ns)] &
        low_mask(layout.meter_target.width);
  }
  if (layout.supports_timeout) entry.last_hit_ns = externs_.now_ns;
  if (layout.profile == kNone) return;
  const std::uint32_t hash = table.profile()->layout().hash;
  const bool is_chosen = entry.binding.member != nullptr;
  const ProfileMembers::Member* member =
      entry.binding.choose(is_chosen ? 0 : calculations_.calculate(hash, packet));
  outcome.action = kNone;  // an empty group counts as a miss without a default action
  if (member == nullptr) return;
  outcome.action = static_cast<std::uint32_t>(
      std::find(layout.actions.begin(), layout.actions.end(), member->action) -
      layout.actions.begin());
  outcome.arguments = member->arguments.data();
}

}  // namespace tiercast::engine
