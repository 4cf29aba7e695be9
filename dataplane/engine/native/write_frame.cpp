// What becomes of a packet's headers: extraction from the frame, and back into it.
#include <algorithm>

#include "dataplane/engine/native/live_cells.h"
#include "dataplane/engine/native/writer.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kPiece = 8;  // cells

std::string load(const FieldPlan& field) {
  const std::string at = "(h + " + std::to_string(field.byte) + ")";
  switch (field.whole_bytes) {
    case 1: return "load8" + at;
    case 2: return "load16" + at;
    case 4: return "load32" + at;
    case 8: return "load64" + at;
    default: break;
  }
  std::string value = "load64" + at;
  if (field.shift != 0) value += " >> " + std::to_string(field.shift);
  return field.mask == ~Cell{0} ? value : "(" + value + ") & " + number(field.mask);
}

// Writes a field over the bytes at h, which hold others, too, if it shares bytes with them.
std::string store(const FieldPlan& field) {
  const std::string value = cell(field.cell);
  const auto at = [&](unsigned byte) { return "h + " + std::to_string(field.byte + byte); };
  switch (field.whole_bytes) {
    case 1: return "store8(" + at(0) + ", " + value + ");";
    case 2: return "store16(" + at(0) + ", " + value + ");";
    case 4: return "store32(" + at(0) + ", " + value + ");";
    case 6:
      return "store32(" + at(0) + ", " + value + " >> 16); store16(" + at(4) + ", " + value + ");";
    case 8: return "store64(" + at(0) + ", " + value + ");";
    default: break;
  }
  // Byte by byte, because 8 at once might reach beyond the frame.
  std::string text;
  const Cell mask = field.mask << field.shift;
  for (unsigned byte = 0; byte < 8 && mask << (8 * byte) != 0; ++byte) {
    const unsigned down = 56 - 8 * byte;
    const Cell keep = ~(mask >> down) & 0xff;
    std::string bits = value;
    if (field.shift > down) {
      bits = "(" + bits + " << " + std::to_string(field.shift - down) + ")";
    } else if (field.shift < down) {
      bits = "(" + bits + " >> " + std::to_string(down - field.shift) + ")";
    }
    if (keep != 0) bits = "((load8(" + at(byte) + ") & " + number(keep) + ") | " + bits + ")";
    text += "store8(" + at(byte) + ", " + bits + "); ";
  }
  return text;
}

void write_compare(const Image& image, std::string& out) {
  out +=
      "FrameNeeds compare(const std::uint64_t* p, std::size_t cursor) {\n"
      "  std::size_t offset = 0;\n";
  out += "  std::uint64_t changed = " + cell(image.tracked_cell) + " ^ 1;\n";
  for (const DeparseStep& step : image.deparse_steps) {
    out += "  if (" + cell(step.valid_cell) + " != 0) {\n";
    if (step.origin_cell == 0) {
      out += "    return FrameNeeds::kDeparse;\n  }\n";
      continue;
    }
    out += "    if (" + cell(step.origin_cell) + " != offset + 1) return FrameNeeds::kDeparse;\n";
    out += "    changed |= " + cell(step.dirty_cell) + ";\n";
    out += "    offset += " + std::to_string(step.bytes) + ";\n  }\n";
  }
  out +=
      "  if (offset != cursor) return FrameNeeds::kDeparse;\n"
      "  return changed == 0 ? FrameNeeds::kNothing : FrameNeeds::kRewrite;\n}\n\n";
}

void write_rewrite(const Image& image, std::string& out) {
  out +=
      "void rewrite([[maybe_unused]] const std::uint64_t* p, [[maybe_unused]] std::byte* frame) "
      "{\n";
  out += "  [[maybe_unused]] const bool all = " + cell(image.tracked_cell) + " == 0;\n";
  for (const DeparseStep& step : image.deparse_steps) {
    const auto& fields = image.header_plans[step.header].write;
    if (step.origin_cell == 0 || fields.empty()) continue;
    out += "  if (" + cell(step.valid_cell) + " != 0 && (all || " + cell(step.dirty_cell) +
           " != 0)) {\n    std::byte* const h = frame + " + cell(step.origin_cell) + " - 1;\n";
    for (const FieldPlan& field : fields) out += "    " + store(field) + "\n";
    out += "  }\n";
  }
  out += "}\n\n";
}

void write_settle(const Image& image, std::string& out) {
  out += "void settle([[maybe_unused]] std::uint64_t* p) {\n";
  for (const DeparseStep& step : image.deparse_steps) {
    out += "  if (" + cell(step.valid_cell) + " != 0) " + cell(step.dirty_cell) + " = 0;\n";
  }
  for (const std::uint32_t dirty : image.always_dirty) out += "  " + cell(dirty) + " = 1;\n";
  out += "}\n\n";
}

void write_header_bytes(const Image& image, std::string& out) {
  out +=
      "std::size_t header_bytes([[maybe_unused]] const std::uint64_t* p) {\n"
      "  std::size_t bytes = 0;\n";
  for (const DeparseStep& step : image.deparse_steps) {
    std::string bytes = std::to_string(step.bytes) + "u";
    if (step.varbit_cell != 0) bytes += " + " + cell(step.varbit_cell) + " / 8";
    out += "  if (" + cell(step.valid_cell) + " != 0) bytes += " + bytes + ";\n";
  }
  out += "  return bytes;\n}\n\n";
}

void write_is_unchanged(const Image& image, std::string& out) {
  out += "bool is_unchanged([[maybe_unused]] const std::uint64_t* p) {\n  return ";
  if (!image.egress_watch) {
    out += "false;\n}\n\n";
    return;
  }
  std::string any;
  for (const std::uint32_t watched : *image.egress_watch) {
    any += (any.empty() ? "(" : " | ") + cell(watched);
  }
  out += any.empty() ? "true;\n}\n\n" : any + ") == 0;\n}\n\n";
}

void write_clear_and_copy(const Image& image, std::string& out) {
  const LiveCells live = find_native_live_cells(image);
  out += "[[gnu::always_inline]] inline void clear_cells([[maybe_unused]] std::uint64_t* p) {\n";
  for (const CellRun& run : live.cleared) write_clear("p", run.first, run.count, out);
  // With stores of 32 bytes where the processor has them, since it is nothing but stores.
  out +=
      "}\n#ifdef __x86_64__\n"
      "[[gnu::target(\"avx2\")]] void clear_wide(std::uint64_t* p) { clear_cells(p); }\n#endif\n"
      "void clear(std::uint64_t* p) {\n#ifdef __x86_64__\n  if (kWide) return clear_wide(p);\n"
      "#endif\n  clear_cells(p);\n}\n\n"
      "void copy([[maybe_unused]] const std::uint64_t* __restrict p,\n"
      "          [[maybe_unused]] std::uint64_t* __restrict to) {\n";
  const auto write_copies = [&](const std::vector<CellRun>& runs) {
    for (const CellRun& run : runs) write_copy("to", "p", run.first, run.first, run.count, out);
  };
  write_copies(live.copied);
  for (const LiveCells::OfHeader& of : live.headers) {
    const HeaderPlan& plan = image.header_plans[of.header];
    if (of.valid.empty() && of.dirty.empty() && of.added.empty()) continue;
    out += "  if (" + cell(image.headers[of.header].valid_cell) + " != 0) {\n";
    write_copies(of.valid);
    if (!of.added.empty()) {
      out += "    if (" + cell(plan.origin_cell) + " == 0) {\n";
      write_copies(of.added);
      out += "    }\n";
    }
    if (!of.dirty.empty()) {
      out += "    if (" + cell(plan.dirty_cell) + " != 0) {\n";
      write_copies(of.dirty);
      out += "    }\n";
    }
    out += "  }\n";
  }
  out += "}\n\n";
}

}  // namespace

void write_clear(const std::string& to, std::uint32_t at, std::uint32_t count, std::string& out) {
  for (std::uint32_t done = 0; done < count; done += kPiece) {
    out += "  std::memset(" + to + " + " + std::to_string(at + done) + ", 0, " +
           std::to_string(std::min(kPiece, count - done) * sizeof(Cell)) + ");\n";
  }
}

void write_copy(const std::string& to, const std::string& from, std::uint32_t at,
                std::uint32_t from_at, std::uint32_t count, std::string& out) {
  for (std::uint32_t done = 0; done < count; done += kPiece) {
    out += "  std::memcpy(" + to + " + " + std::to_string(at + done) + ", " + from + " + " +
           std::to_string(from_at + done) + ", " +
           std::to_string(std::min(kPiece, count - done) * sizeof(Cell)) + ");\n";
  }
}

void write_extract(const Image& image, const HeaderPlan& plan, std::string& out) {
  const std::string bytes = std::to_string(plan.bytes) + "u";
  out += "  if (" + bytes +
         " > s.size - cursor) {\n    s.error = " + number(image.error_packet_too_short) +
         ";\n    goto end;\n  }\n  {\n";
  if (!plan.flat_read.empty()) out += "    const std::byte* const h = s.data + cursor;\n";
  for (const FieldPlan& field : plan.flat_read) {
    out += "    " + cell(field.cell) + " = " + load(field) + ";\n";
  }
  out += "    " + cell(plan.valid_cell) + " = 1;\n";
  out += "    " + cell(plan.origin_cell) + " = cursor + 1;\n";
  out += "    " + cell(plan.dirty_cell) + " = 0;\n";
  out += "    cursor += " + bytes + ";\n  }\n";
}

void write_frame_functions(const Image& image, std::string& out) {
  write_clear_and_copy(image, out);
  write_header_bytes(image, out);
  write_is_unchanged(image, out);
  write_compare(image, out);
  write_rewrite(image, out);
  write_settle(image, out);
}

}  // namespace tiercast::engine
