// The parts that execute an image on one packet.
#pragma once

#include <cstdint>

#include "dataplane/engine/control/output.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/flat_machine.h"
#include "dataplane/engine/run/interpreter/calculations.h"
#include "dataplane/engine/run/interpreter/interpreter.h"
#include "dataplane/engine/run/interpreter/table_hits.h"
#include "dataplane/engine/run/parse/checksums.h"
#include "dataplane/engine/run/parse/deparser.h"
#include "dataplane/engine/run/parse/parser.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/headers.h"

namespace tiercast::engine {

struct Machine {
  // All arguments must outlive this object. drop_port: where mark_to_drop() sends a packet.
  Machine(const Image& image, Externs& externs, Output& output, std::uint32_t drop_port)
      : headers(image),
        calculations(image, externs),
        interpreter(image, externs, headers, calculations, output, drop_port),
        parser(image, externs, interpreter),
        checksums(image, calculations, interpreter),
        deparser(image),
        hits(image, externs, calculations),
        flat(image, externs, headers, interpreter, parser, checksums, hits, drop_port) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Headers headers;
  Calculations calculations;
  Interpreter interpreter;
  Parser parser;
  Checksums checksums;
  Deparser deparser;
  TableHits hits;
  FlatMachine flat;
};

}  // namespace tiercast::engine
