// The checksums that are verified before ingress and updated behind egress.
#pragma once

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/calculations.h"
#include "dataplane/engine/run/interpreter.h"
#include "dataplane/engine/run/packet_state.h"

namespace tiercast::engine {

class Checksums {
 public:
  // All must outlive it.
  Checksums(const Image& image, Calculations& calculations, Interpreter& interpreter)
      : image_(image), calculations_(calculations), interpreter_(interpreter) {}

  // One of them, whose condition holds.
  void verify(const Checksum& checksum, PacketState& packet);
  void update(const Checksum& checksum, PacketState& packet);
  // All of them, where their conditions hold.
  void verify_all(PacketState& packet);
  void update_all(PacketState& packet);

 private:
  bool holds(const Checksum& checksum, PacketState& packet);
  Cell sum_received(const Checksum& checksum, const PacketState& packet) const;

  const Image& image_;
  Calculations& calculations_;
  Interpreter& interpreter_;
};

}  // namespace tiercast::engine
