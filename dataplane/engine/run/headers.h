// Headers in the packet vector: validity, copies, comparison, stacks, and how they come out of a
// frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/packet_state.h"

namespace tiercast::engine {

// Of two varbit fields in the packet vector: the same length and value.
bool varbits_equal(const Cell* a, const Cell* b);

class Headers {
 public:
  explicit Headers(const Image& image) : image_(image) {}

  // A union's other members become invalid.
  void set_valid(Cell* phv, std::uint32_t header, bool valid) const;
  void assign(Cell* phv, std::uint32_t to, std::uint32_t from) const;
  // Both invalid, or both valid with equal fields.
  bool equal(const Cell* phv, std::uint32_t a, std::uint32_t b) const;
  // push_front, or pop_front if `by` is negative.
  void shift_stack(Cell* phv, const HeaderStack& stack, int by) const;

  // The header that starts at packet.cursor, which moves behind it; false: packet.error says why.
  bool extract(PacketState& packet, const Header& header, std::uint32_t varbit_bits) const;
  bool extract_plain(PacketState& packet, const HeaderPlan& plan,
                     const std::vector<FieldPlan>& fields) const;

 private:
  void set_element_valid(Cell* phv, const HeaderStack& stack, std::size_t index, bool valid) const;

  const Image& image_;
};

}  // namespace tiercast::engine
