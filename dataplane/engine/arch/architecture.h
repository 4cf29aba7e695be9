// The seam between the engine and a P4 architecture (v1model, PSA): what the compiler and a switch
// need from it. docs/engine.md says how to add one.
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

// A packet's path from port to port, for one switch and one program. It fixes the order of parsers,
// controls and deparsers, the metadata that they get, and what they may ask for (copies, another
// pass). Ingress happens at SwitchCore::clock_ns; the traffic manager calls for the rest.
class PacketPath : public TrafficManager::Client {
 public:
  // Handles a frame, not yet parsed, that a port received. Takes ownership.
  virtual void ingress(Packet* packet) = 0;
  // Handles a packet that was given to SwitchCore::run_again(). Takes ownership.
  virtual void again(Packet* packet) = 0;
};

// One constant object per architecture. The members that compile throw Refused.
class Architecture {
 public:
  virtual ~Architecture() = default;
  // The name in P4Info's pkg_info.arch, such as "v1model".
  virtual std::string_view name() const = 0;
  // The name of the metadata that p4c declares only in programs for this architecture, such as
  // "standard_metadata". Nothing else in bmv2 JSON names the architecture.
  virtual std::string_view metadata() const = 0;

  // Whether ingress and egress have a parser and a deparser each, instead of one before and one
  // behind both. A program then has two images: one of ingress, and Image::egress.
  virtual bool parses_twice() const { return false; }

  // Finds the architecture's metadata and sets Image::{fields, verdict, checksum_error_cell,
  // read_behind, meter_colours}. Called once the headers have their places in the packet vector.
  virtual void find_metadata(const Compiler& compiler, Image& image) const = 0;
  // Declares one of the JSON's extern_instances. False if the architecture has no such extern.
  virtual bool extern_instance(Compiler&, const Json&) const { return false; }
  // Compiles a primitive that affects a packet's path. False if the architecture has no primitive
  // of this name.
  virtual bool primitive(Compiler& compiler, const Json& node) const = 0;

  // All arguments must outlive the path.
  virtual std::unique_ptr<PacketPath> make_path(SwitchCore& core, ProgramState& program) const = 0;
};

}  // namespace tiercast::engine
