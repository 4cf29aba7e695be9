// The checksums that are verified before ingress and updated after egress.
#pragma once

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/calculations.h"
#include "dataplane/engine/run/interpreter/interpreter.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

class Checksums {
 public:
  // All arguments must outlive this object.
  Checksums(const Image& image, Calculations& calculations, Interpreter& interpreter)
      : image_(image), calculations_(calculations), interpreter_(interpreter) {}

  // One checksum, whose condition holds.
  void verify(const Checksum& checksum, PacketState& packet);
  void update(const Checksum& checksum, PacketState& packet);
  // All checksums whose conditions hold.
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
