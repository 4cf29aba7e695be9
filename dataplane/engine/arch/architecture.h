// The seam between the engine and a P4 architecture (v1model; PSA could be another): what the
// compiler and a switch ask of it. docs/engine.md says how to add one.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/traffic_manager.h"

namespace tiercast::engine {

class Compiler;
class Json;
class SwitchCore;
struct Image;
struct ProgramState;

// A packet's way from port to port, for one switch and one program: the order of parsers, controls
// and deparsers, the metadata that they are handed, and what they may ask for (copies, another
// round). Ingress happens at SwitchCore::clock_ns; the traffic manager calls for the rest.
class PacketPath : public TrafficManager::Client {
 public:
  // A packet that a port received: the frame, as yet unparsed. Takes it.
  virtual void ingress(Packet* packet) = 0;
  // One that was given to SwitchCore::run_again(). Takes it.
  virtual void again(Packet* packet) = 0;
};

// One constant object per architecture. The members that compile throw Refused.
class Architecture {
 public:
  virtual ~Architecture() = default;
  // As P4Info's pkg_info.arch has it: "v1model".
  virtual std::string_view name() const = 0;
  // The metadata that p4c declares in a program for it, and in no other; bmv2 JSON says in no other
  // way what it was made for. "standard_metadata".
  virtual std::string_view metadata() const = 0;

  // Called once the headers are laid out in the packet vector: finds the architecture's metadata,
  // and sets Image::{fields, verdict, checksum_error_cell, read_behind}.
  virtual void find_metadata(const Compiler& compiler, Image& image) const = 0;
  // Compiles a primitive that concerns a packet's way; false: the architecture has none so named.
  virtual bool primitive(Compiler& compiler, const Json& node) const = 0;

  // All must outlive the path.
  virtual std::unique_ptr<PacketPath> make_path(SwitchCore& core, ProgramState& program) const = 0;
};

}  // namespace tiercast::engine
