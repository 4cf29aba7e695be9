// Executes flat code on one packet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/interpreter.h"
#include "dataplane/engine/run/interpreter/table_hits.h"
#include "dataplane/engine/run/parse/checksums.h"
#include "dataplane/engine/run/parse/parser.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/headers.h"
#include "dataplane/engine/run/state/packet_state.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

class FlatMachine {
 public:
  // All arguments must outlive this object.
  FlatMachine(const Image& image, Externs& externs, const Headers& headers,
              Interpreter& interpreter, Parser& parser, Checksums& checksums, TableHits& hits,
              std::uint32_t drop_port)
      : image_(image),
        externs_(externs),
        headers_(headers),
        interpreter_(interpreter),
        parser_(parser),
        checksums_(checksums),
        hits_(hits),
        drop_port_(drop_port) {}

  // As Parser::run().
  void parse(PacketState& packet, std::span<const std::unique_ptr<MatchTable>> tables);
  // Runs from an address in FlatCode until the code ends.
  void run(std::uint32_t start, PacketState& packet,
           std::span<const std::unique_ptr<MatchTable>> tables);

 private:
  const Image& image_;
  Externs& externs_;
  const Headers& headers_;
  Interpreter& interpreter_;
  Parser& parser_;
  Checksums& checksums_;
  TableHits& hits_;
  std::uint32_t drop_port_;
};

}  // namespace tiercast::engine
