// Headers in the packet vector: validity, copies, comparison, stacks.
#include <algorithm>

#include "dataplane/engine/run/machine.h"

namespace tiercast::engine {

bool varbits_equal(const Cell* a, const Cell* b) {
  return a[0] == b[0] && std::equal(a + 1, a + 1 + cells_for(static_cast<unsigned>(a[0])), b + 1);
}

void Machine::set_valid(Cell* phv, std::uint32_t header, bool valid) const {
  const Header& h = image_.headers[header];
  if (h.metadata) return;
  if (valid && h.header_union != kNone) {
    for (std::uint32_t other : image_.unions[h.header_union].headers) {
      phv[image_.headers[other].valid_cell] = 0;
    }
  }
  phv[h.valid_cell] = valid ? 1 : 0;
}

void Machine::assign_header(Cell* phv, std::uint32_t to, std::uint32_t from) const {
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

bool Machine::headers_equal(const Cell* phv, std::uint32_t a, std::uint32_t b) const {
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

void Machine::set_element_valid(Cell* phv, const HeaderStack& stack, std::size_t index,
                                bool valid) const {
  if (!stack.of_unions) return set_valid(phv, stack.headers[index], valid);
  for (std::uint32_t h : image_.unions[stack.headers[index]].headers) set_valid(phv, h, valid);
}

// P4_16 8.18: push_front and pop_front shift the elements; those that become free are invalid.
void Machine::shift_stack(Cell* phv, const HeaderStack& stack, int by) const {
  const int size = static_cast<int>(stack.headers.size());
  const auto move = [&](int to, int from) {
    const auto t = stack.headers[static_cast<std::size_t>(to)];
    const auto f = stack.headers[static_cast<std::size_t>(from)];
    if (!stack.of_unions) return assign_header(phv, t, f);
    for (std::size_t m = 0; m < image_.unions[t].headers.size(); ++m) {
      phv[image_.headers[image_.unions[t].headers[m]].valid_cell] = 0;
    }
    for (std::size_t m = 0; m < image_.unions[t].headers.size(); ++m) {
      const std::uint32_t source = image_.unions[f].headers[m];
      if (phv[image_.headers[source].valid_cell] != 0) {
        assign_header(phv, image_.unions[t].headers[m], source);
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

}  // namespace tiercast::engine
