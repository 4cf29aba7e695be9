// Hashes and checksums. Their input is gathered as bytes, in the form that it has on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/state/externs.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

class Calculations {
 public:
  // Both must outlive this object.
  Calculations(const Image& image, Externs& externs)
      : image_(image), externs_(externs), scratch_(image.max_calculation_bytes + 8) {}

  // calculation: index into Image::calculations.
  Cell calculate(std::uint32_t calculation, const PacketState& packet);
  // The one's complement sum of `sum` and the 16-bit words of the calculation's input, each of them
  // complemented if they are to be subtracted (RFC 1624).
  Cell ones_sum(std::uint32_t calculation, Cell sum, bool subtract, const PacketState& packet);

 private:
  Cell calculate_general(std::uint32_t calculation, const PacketState& packet);
  // The input, which lies in scratch_.
  std::span<const std::byte> gather(std::uint32_t calculation, const PacketState& packet);
  Cell apply(std::uint32_t calculation, std::span<const std::byte> data);

  const Image& image_;
  Externs& externs_;
  std::vector<std::byte> scratch_;  // input of a calculation
};

}  // namespace tiercast::engine
