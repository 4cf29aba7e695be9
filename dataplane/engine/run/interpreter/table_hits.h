// What a hit does besides its action: direct meter, time-out, choice of a profile's member.
#pragma once

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/calculations.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/packet_state.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

class TableHits {
 public:
  // All arguments must outlive this object.
  TableHits(const Image& image, const Externs& externs, Calculations& calculations)
      : image_(image), externs_(externs), calculations_(calculations) {}

  // Completes an outcome that has MatchTable::Outcome::special.
  void complete(const Table& layout, MatchTable& table, PacketState& packet,
                MatchTable::Outcome& outcome);

 private:
  const Image& image_;
  const Externs& externs_;
  Calculations& calculations_;
};

}  // namespace tiercast::engine
