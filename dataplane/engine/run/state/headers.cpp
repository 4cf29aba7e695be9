#include "dataplane/engine/run/state/headers.h"

#include <algorithm>
#include <cstring>

#include "dataplane/engine/packet/bits.h"

namespace tiercast::engine {

namespace {

// The 8 bytes at p as a big-endian number.
Cell load(const std::byte* p) {
  Cell value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap64(value);
}

}  // namespace

bool varbits_equal(const Cell* a, const Cell* b) {
  return a[0] == b[0] && std::equal(a + 1, a + 1 + cells_for(static_cast<unsigned>(a[0])), b + 1);
}

void Headers::set_valid(Cell* phv, std::uint32_t header, bool valid) const {
  const Header& h = image_.headers[header];
  if (h.metadata) return;
  if (valid && h.header_union != kNone) {
    for (std::uint32_t other : image_.unions[h.header_union].headers) {
      phv[image_.headers[other].valid_cell] = 0;
    }
  }
  phv[h.valid_cell] = valid ? 1 : 0;
}

void Headers::assign(Cell* phv, std::uint32_t to, std::uint32_t from) const {
  const Header& source = image_.headers[from];
  const bool valid = source.metadata || phv[source.valid_cell] != 0;
  set_valid(phv, to, valid);
  if (!valid) return;
  std::copy_n(phv + source.valid_cell + 1, source.cells - 1,
              phv + image_.headers[to].valid_cell + 1);
  const HeaderPlan& plan = image_.header_plans[to];
  if (plan.plain) {
    phv[plan.origin_cell] = phv[image_.header_plans[from].origin_cell];
    phv[plan.dirty_cell] = phv[image_.header_plans[from].dirty_cell];
  }
}

bool Headers::equal(const Cell* phv, std::uint32_t a, std::uint32_t b) const {
  const Header& x = image_.headers[a];
  const Header& y = image_.headers[b];
  if (phv[x.valid_cell] != phv[y.valid_cell]) return false;
  if (phv[x.valid_cell] == 0 && !x.metadata) return true;
  for (std::size_t f = 0; f < x.fields.size(); ++f) {
    const Cell* p = phv + x.fields[f].cell;
    const Cell* q = phv + y.fields[f].cell;
    if (x.fields[f].is_varbit ? !varbits_equal(p, q)
                              : !std::equal(p, p + cells_for(x.fields[f].width), q)) {
      return false;
    }
  }
  return true;
}

void Headers::set_element_valid(Cell* phv, const HeaderStack& stack, std::size_t index,
                                bool valid) const {
  if (!stack.of_unions) return set_valid(phv, stack.headers[index], valid);
  for (std::uint32_t h : image_.unions[stack.headers[index]].headers) set_valid(phv, h, valid);
}

// P4_16 8.18: push_front and pop_front shift the elements. Elements that become free are invalid.
void Headers::shift_stack(Cell* phv, const HeaderStack& stack, int by) const {
  const int size = static_cast<int>(stack.headers.size());
  const auto move = [&](int to, int from) {
    const auto t = stack.headers[static_cast<std::size_t>(to)];
    const auto f = stack.headers[static_cast<std::size_t>(from)];
    if (!stack.of_unions) return assign(phv, t, f);
    for (std::size_t m = 0; m < image_.unions[t].headers.size(); ++m) {
      phv[image_.headers[image_.unions[t].headers[m]].valid_cell] = 0;
    }
    for (std::size_t m = 0; m < image_.unions[t].headers.size(); ++m) {
      const std::uint32_t source = image_.unions[f].headers[m];
      if (phv[image_.headers[source].valid_cell] != 0) {
        assign(phv, image_.unions[t].headers[m], source);
      }
    }
  };
  if (by > 0) {
    for (int i = size - 1; i >= by; --i) move(i, i - by);
    for (int i = 0; i < std::min(by, size); ++i) {
      set_element_valid(phv, stack, static_cast<std::size_t>(i), false);
    }
  } else {
    for (int i = 0; i - by < size; ++i) move(i, i - by);
    for (int i = std::max(0, size + by); i < size; ++i) {
      set_element_valid(phv, stack, static_cast<std::size_t>(i), false);
    }
  }
  Cell& next = phv[stack.next_cell];
  const std::int64_t moved = static_cast<std::int64_t>(next) + by;
  next = static_cast<Cell>(std::clamp<std::int64_t>(moved, 0, size));
}

bool Headers::extract_plain(PacketState& packet, const HeaderPlan& plan,
                            const std::vector<FieldPlan>& fields) const {
  if (plan.bytes > packet.size - packet.cursor) {
    packet.error = image_.error_packet_too_short;
    return false;
  }
  const std::byte* data = packet.data + packet.cursor;
  Cell* phv = packet.phv;
  for (const FieldPlan& field : fields) {
    phv[field.cell] = load(data + field.byte) >> field.shift & field.mask;
  }
  phv[plan.valid_cell] = 1;
  phv[plan.origin_cell] = packet.cursor + 1;
  phv[plan.dirty_cell] = 0;
  packet.cursor += plan.bytes;
  return true;
}

bool Headers::extract(PacketState& packet, const Header& header, std::uint32_t varbit_bits) const {
  const HeaderPlan& plan =
      image_.header_plans[static_cast<std::size_t>(&header - image_.headers.data())];
  if (plan.plain) return extract_plain(packet, plan, plan.read);
  if (varbit_bits % 8 != 0) {
    packet.error = image_.error_parser_invalid_argument;
    return false;
  }
  const std::size_t bytes = (std::size_t{header.fixed_bits} + varbit_bits) / 8;
  if (bytes > packet.size - packet.cursor) {
    packet.error = image_.error_packet_too_short;
    return false;
  }
  if (header.varbit != kNone && varbit_bits > header.fields[header.varbit].width) {
    packet.error = image_.error_header_too_short;
    return false;
  }
  const std::byte* data = packet.data + packet.cursor;
  std::size_t bit = 0;
  for (const Field& field : header.fields) {
    Cell* cell = packet.phv + field.cell;
    if (field.is_varbit) {
      *cell = varbit_bits;
      read_wide(data, bit, varbit_bits, cell + 1);
      bit += varbit_bits;
      continue;
    }
    if (field.width <= kCellBits) {
      *cell = read_bits(data, bit, field.width);
    } else {
      read_wide(data, bit, field.width, cell);
    }
    bit += field.width;
  }
  set_valid(packet.phv, static_cast<std::uint32_t>(&header - image_.headers.data()), true);
  packet.cursor += bytes;
  return true;
}

}  // namespace tiercast::engine
