#include "dataplane/engine/run/parse/deparser.h"

#include <cstring>

#include "dataplane/engine/packet/bits.h"

namespace tiercast::engine {

namespace {

template <class Integer>
void store(std::byte* p, Integer big_endian) {
  std::memcpy(p, &big_endian, sizeof big_endian);
}

void put(std::byte* header, const FieldPlan& field, Cell value) {
  std::byte* p = header + field.byte;
  switch (field.whole_bytes) {
    case 1: *p = static_cast<std::byte>(value); break;
    case 2: store(p, __builtin_bswap16(static_cast<std::uint16_t>(value))); break;
    case 4: store(p, __builtin_bswap32(static_cast<std::uint32_t>(value))); break;
    case 6:
      store(p, __builtin_bswap32(static_cast<std::uint32_t>(value >> 16)));
      store(p + 4, __builtin_bswap16(static_cast<std::uint16_t>(value)));
      break;
    case 8: store(p, __builtin_bswap64(value)); break;
    default: {  // byte by byte, because 8 at once might reach beyond the frame
      // The field's bits, and the mask of its place, in the 8 bytes that start at p.
      const Cell bits = value << field.shift, mask = field.mask << field.shift;
      for (unsigned at = 0; at < 8 && mask << (8 * at) != 0; ++at) {
        const auto keep = static_cast<std::byte>(~mask >> (56 - 8 * at));
        p[at] = (p[at] & keep) | static_cast<std::byte>(bits >> (56 - 8 * at));
      }
    }
  }
}

}  // namespace

std::size_t Deparser::header_bytes(const Cell* phv) const {
  if (native_ != nullptr) return native_->header_bytes(phv);
  std::size_t bytes = 0;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0) continue;
    bytes += step.bytes;
    if (step.varbit_cell != 0) bytes += phv[step.varbit_cell] / 8;
  }
  return bytes;
}

FrameNeeds Deparser::compare_with_frame(const Cell* phv, std::size_t cursor) const {
  if (native_ != nullptr) return native_->compare(phv, cursor);
  std::size_t offset = 0;
  Cell changed = phv[image_.tracked_cell] ^ 1;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0) continue;
    if (step.origin_cell == 0 || phv[step.origin_cell] != offset + 1) return FrameNeeds::kDeparse;
    changed |= phv[step.dirty_cell];
    offset += step.bytes;
  }
  if (offset != cursor) return FrameNeeds::kDeparse;
  return changed == 0 ? FrameNeeds::kNothing : FrameNeeds::kRewrite;
}

void Deparser::rewrite_early(Cell* phv, std::byte* frame) const {
  rewrite(phv, frame);
  if (native_ != nullptr) return native_->settle(phv);
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] != 0) phv[step.dirty_cell] = 0;
  }
  for (std::uint32_t dirty : image_.always_dirty) phv[dirty] = 1;
}

void Deparser::rewrite(const Cell* phv, std::byte* frame) const {
  if (native_ != nullptr) return native_->rewrite(phv, frame);
  const bool tracked = phv[image_.tracked_cell] != 0;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0 || (tracked && phv[step.dirty_cell] == 0)) continue;
    std::byte* header = frame + phv[step.origin_cell] - 1;
    for (const FieldPlan& field : image_.header_plans[step.header].write) {
      put(header, field, phv[field.cell]);
    }
  }
}

std::size_t Deparser::write(const PacketState& packet, std::byte* out) const {
  const Cell* phv = packet.phv;
  std::byte* const start = out;
  for (std::uint32_t index : image_.deparser_order) {
    const Header& header = image_.headers[index];
    if (phv[header.valid_cell] == 0) continue;
    const HeaderPlan& plan = image_.header_plans[index];
    if (plan.plain) {
      const Cell origin = phv[plan.origin_cell];
      if (origin != 0) {
        std::memcpy(out, packet.data + origin - 1, plan.bytes);
      } else {
        std::memset(out, 0, plan.bytes);
      }
      for (const FieldPlan& field : origin != 0 ? plan.write : plan.fields) {
        put(out, field, phv[field.cell]);
      }
      out += plan.bytes;
      continue;
    }
    BitWriter writer(out);
    for (const Field& field : header.fields) {
      const Cell* cell = phv + field.cell;
      if (field.is_varbit) {
        writer.put_wide(cell + 1, static_cast<unsigned>(*cell));
      } else if (field.width <= kCellBits) {
        writer.put(*cell, field.width);
      } else {
        writer.put_wide(cell, field.width);
      }
    }
    out += writer.bytes();
  }
  return static_cast<std::size_t>(out - start);
}

}  // namespace tiercast::engine
