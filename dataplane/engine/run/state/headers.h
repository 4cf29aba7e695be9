// Headers in the packet vector: validity, copies, comparison, stacks, and extraction from a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

// Whether two varbit fields in the packet vector have the same length and value.
bool varbits_equal(const Cell* a, const Cell* b);

class Headers {
 public:
  explicit Headers(const Image& image) : image_(image) {}

  // Setting a union's member valid makes its other members invalid.
  void set_valid(Cell* phv, std::uint32_t header, bool valid) const;
  void assign(Cell* phv, std::uint32_t to, std::uint32_t from) const;
  // True if both are invalid, or both are valid with equal fields.
  bool equal(const Cell* phv, std::uint32_t a, std::uint32_t b) const;
  // push_front; pop_front if `by` is negative.
  void shift_stack(Cell* phv, const HeaderStack& stack, int by) const;

  // Extracts the header that starts at packet.cursor, and moves the cursor behind it. False if it
  // cannot; packet.error then says why.
  bool extract(PacketState& packet, const Header& header, std::uint32_t varbit_bits) const;
  bool extract_plain(PacketState& packet, const HeaderPlan& plan,
                     const std::vector<FieldPlan>& fields) const;

 private:
  void set_element_valid(Cell* phv, const HeaderStack& stack, std::size_t index, bool valid) const;

  const Image& image_;
};

}  // namespace tiercast::engine
