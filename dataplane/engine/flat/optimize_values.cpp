// Computes at load what need not be computed per packet.
//
// Every value that a part of the flat code computes gets a number, and cells that certainly hold
// the same value have the same number (value numbering: Cocke, Schwartz 1970; across branches as
// in Wegman, Zadeck 1991, "Constant propagation with conditional branches"). This gives:
//   - an operand is read from the cell that first held its value, so that copies become useless;
//   - a known operand becomes an immediate, and a known result becomes a Set;
//   - a value that is still in the cell of an earlier computation is not computed again;
//   - a jump with a known outcome is removed, a comparison with a constant fixes the outcome of
//     later ones, and a jump to a jump goes straight to the last target.
//
// Each block is visited once, after those that lead to it. Known at its start is what all of them
// agree on. At the start of a loop, nothing is known.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "dataplane/engine/flat/optimize_passes.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kNoCell = 0xffffffff;

struct Number {
  bool constant = false;
  Cell value = 0;
  Cell most = ~Cell{0};          // bits that may be set
  std::uint32_t home = kNoCell;  // the cell that first held the value
};

using State = std::vector<std::uint32_t>;  // by cell: the number of its value

bool in(FlatOp op, FlatOp first, FlatOp last) { return op >= first && op <= last; }

bool is_arithmetic(FlatOp op) { return in(op, FlatOp::kAdd, FlatOp::kShiftRightI); }
bool is_comparison(FlatOp op) { return in(op, FlatOp::kEqual, FlatOp::kLessEqualI); }
bool is_comparing_jump(FlatOp op) { return in(op, FlatOp::kJumpEqual, FlatOp::kJumpLessEqualI); }

FlatOp next_op(FlatOp op, int by) { return static_cast<FlatOp>(static_cast<int>(op) + by); }

// Of a pair, the operation whose operands are all cells.
FlatOp of_cells(FlatOp op) {
  const FlatOp first = is_arithmetic(op)   ? FlatOp::kAdd
                       : is_comparison(op) ? FlatOp::kEqual
                                           : FlatOp::kJumpEqual;
  return (static_cast<int>(op) - static_cast<int>(first)) % 2 == 0 ? op : next_op(op, -1);
}

FlatOp comparison_of(FlatOp jump) {
  return next_op(jump, static_cast<int>(FlatOp::kEqual) - static_cast<int>(FlatOp::kJumpEqual));
}

// The operation with its operands swapped: x op y is y turned(op) x. Empty if there is none.
std::optional<FlatOp> turned(FlatOp op) {
  switch (op) {
    case FlatOp::kAdd:
    case FlatOp::kMultiply:
    case FlatOp::kAnd:
    case FlatOp::kOr:
    case FlatOp::kXor:
    case FlatOp::kEqual:
    case FlatOp::kNotEqual:
    case FlatOp::kJumpEqual:
    case FlatOp::kJumpNotEqual: return op;
    case FlatOp::kLess: return FlatOp::kGreater;
    case FlatOp::kGreater: return FlatOp::kLess;
    case FlatOp::kLessEqual: return FlatOp::kGreaterEqual;
    case FlatOp::kGreaterEqual: return FlatOp::kLessEqual;
    case FlatOp::kJumpLess: return FlatOp::kJumpGreater;
    case FlatOp::kJumpGreater: return FlatOp::kJumpLess;
    case FlatOp::kJumpLessEqual: return FlatOp::kJumpGreaterEqual;
    case FlatOp::kJumpGreaterEqual: return FlatOp::kJumpLessEqual;
    default: return std::nullopt;
  }
}

// Same result as in flat_machine.cpp. `op` takes only cells.
Cell evaluate(FlatOp op, Cell x, Cell y) {
  switch (op) {
    case FlatOp::kAdd: return x + y;
    case FlatOp::kSubtract: return x - y;
    case FlatOp::kMultiply: return x * y;
    case FlatOp::kAnd: return x & y;
    case FlatOp::kOr: return x | y;
    case FlatOp::kXor: return x ^ y;
    case FlatOp::kShiftLeft: return y < kCellBits ? x << y : 0;
    case FlatOp::kShiftRight: return y < kCellBits ? x >> y : 0;
    case FlatOp::kEqual: return x == y;
    case FlatOp::kNotEqual: return x != y;
    case FlatOp::kLess: return x < y;
    case FlatOp::kGreaterEqual: return x >= y;
    case FlatOp::kGreater: return x > y;
    default: return x <= y;  // kLessEqual
  }
}

// All bits from the lowest to the highest one set in `bits`.
Cell filled(Cell bits) { return bits == 0 ? 0 : ~Cell{0} >> __builtin_clzll(bits); }

class Propagation {
 public:
  Propagation(const Image& image, FlatGraph& graph) : image_(image), graph_(graph) {
    width_.assign(image.phv_cells, ~Cell{0});
    for (const Header& header : image.headers) {
      width_[header.valid_cell] = 1;
      for (const Field& f : header.fields) {
        if (f.is_varbit) continue;
        for (std::uint32_t c = 0; c < cells_for(f.width); ++c) {
          width_[f.cell + c] = low_mask(f.width - c * kCellBits);
        }
      }
    }
    for (const HeaderPlan& plan : image.header_plans) {
      if (plan.plain) width_[plan.dirty_cell] = 1;
    }
    width_[0] = ~Cell{0};  // the scratch cell
  }

  void run() {
    const std::vector<std::uint32_t> order = in_order(graph_);
    rank_.assign(graph_.blocks.size(), 0);
    is_loop_.assign(graph_.blocks.size(), false);
    reached_.assign(graph_.blocks.size(), false);
    before_.resize(graph_.blocks.size());
    for (std::uint32_t n = 0; n < order.size(); ++n) rank_[order[n]] = n;
    for (std::uint32_t b : order) {
      for (std::uint32_t to : graph_.blocks[b].next) {
        if (rank_[to] <= rank_[b]) is_loop_[to] = true;
      }
    }
    reached_[0] = true;
    for (std::uint32_t b : order) {
      if (!reached_[b]) continue;
      State state = b == 0 || is_loop_[b] ? unknown() : std::move(before_[b]);
      block(b, state);
    }
  }

 private:
  std::uint32_t fresh(Cell most, std::uint32_t home) {
    numbers_.push_back({.most = most, .home = home});
    return static_cast<std::uint32_t>(numbers_.size() - 1);
  }
  std::uint32_t constant(Cell value) {
    const auto [found, is_new] = constants_.try_emplace(value, 0);
    if (is_new) {
      numbers_.push_back({.constant = true, .value = value, .most = value});
      found->second = static_cast<std::uint32_t>(numbers_.size() - 1);
    }
    return found->second;
  }
  State unknown() {
    State state(image_.phv_cells);
    for (std::uint32_t c = 0; c < state.size(); ++c) state[c] = fresh(width_[c], c);
    return state;
  }
  void forget(State& state, std::uint32_t cell) { state[cell] = fresh(width_[cell], cell); }

  // The cell that first held this cell's value, if it still holds it; otherwise the cell itself.
  std::uint16_t origin(const State& state, std::uint16_t cell) const {
    const std::uint32_t home = numbers_[state[cell]].home;
    return home != kNoCell && state[home] == state[cell] ? static_cast<std::uint16_t>(home) : cell;
  }
  std::optional<Cell> known(const State& state, std::uint32_t cell) const {
    const Number& n = numbers_[state[cell]];
    return n.constant ? std::optional(n.value) : std::nullopt;
  }
  Cell most(const State& state, std::uint32_t cell) const { return numbers_[state[cell]].most; }

  // Replaces known operands by immediates where the operation has such a form.
  void use_immediate(const State& state, FlatInstruction& i) const {
    if (!operands(i.op).y) return;
    if (const auto y = known(state, i.y)) {
      i = {.op = next_op(i.op, 1), .d = i.d, .x = i.x, .target = i.target, .i = *y, .mask = i.mask};
    } else if (const auto x = known(state, i.x); x && turned(i.op)) {
      i = {.op = next_op(*turned(i.op), 1),
           .d = i.d,
           .x = i.y,
           .target = i.target,
           .i = *x,
           .mask = i.mask};
    }
  }

  // The outcome of a comparison. Empty if it is not known.
  std::optional<bool> outcome(const State& state, FlatOp op, const FlatInstruction& i) const {
    const FlatOp plain = of_cells(op);
    const auto x = known(state, i.x);
    const auto y = op == plain ? known(state, i.y) : std::optional(i.i);
    if (x && y) return evaluate(plain, *x, *y) != 0;
    if (op == plain && state[i.x] == state[i.y]) return evaluate(plain, 0, 0) != 0;
    if (y && (*y & ~most(state, i.x)) != 0) {
      if (plain == FlatOp::kEqual) return false;
      if (plain == FlatOp::kNotEqual) return true;
    }
    return std::nullopt;
  }

  // Simplifies an operation on cells, to a Set or Move if possible.
  void simplify(const State& state, FlatInstruction& i) const {
    const auto to_set = [&](Cell value) {
      i = {.op = FlatOp::kSet, .d = i.d, .i = value & i.mask};
    };
    const auto to_move = [&] { i = {.op = FlatOp::kMove, .d = i.d, .x = i.x, .mask = i.mask}; };
    if (i.op == FlatOp::kSubtractToZero) {
      const auto x = known(state, i.x), y = known(state, i.y);
      if (x && y) to_set(*x > *y ? *x - *y : 0);
      return;
    }
    if (is_arithmetic(i.op) || is_comparison(i.op)) use_immediate(state, i);
    const bool shift = i.op == FlatOp::kShiftLeftI || i.op == FlatOp::kShiftRightI;
    if (shift && i.i >= kCellBits) return to_set(0);
    const Cell bits = most(state, i.x);
    if (is_comparison(i.op)) {
      if (const auto known_outcome = outcome(state, i.op, i)) return to_set(*known_outcome ? 1 : 0);
      const bool is_bit = bits <= 1;
      if (is_bit &&
          ((i.op == FlatOp::kEqualI && i.i == 1) || (i.op == FlatOp::kNotEqualI && i.i == 0))) {
        to_move();
      }
    } else if (is_arithmetic(i.op) && !operands(i.op).y) {
      const FlatOp op = of_cells(i.op);
      if (const auto x = known(state, i.x)) return to_set(evaluate(op, *x, i.i));
      if (op == FlatOp::kAnd) {
        i.mask &= i.i;
        to_move();
      } else if (i.i == 0 && op != FlatOp::kMultiply) {  // the other operations leave x as it is
        to_move();
      }
    }
    if (i.op == FlatOp::kMove || i.op == FlatOp::kNot || i.op == FlatOp::kMinimumI) {
      const Cell x = numbers_[state[i.x]].value;
      if (known(state, i.x)) {
        to_set(i.op == FlatOp::kMove ? x : i.op == FlatOp::kNot ? ~x : std::min(x, i.i));
      } else if (i.op == FlatOp::kMove && (bits & i.mask) == 0) {
        to_set(0);
      }
    }
    if (i.op != FlatOp::kSet && (bits_of_result(state, i) & ~i.mask) == 0) i.mask = ~Cell{0};
  }

  // The bits that may be set in the result before the mask cuts it.
  Cell bits_of_result(const State& state, const FlatInstruction& i) const {
    const Cell x = most(state, i.x);
    switch (i.op) {
      case FlatOp::kMove: return x;
      case FlatOp::kMinimumI: return filled(x) & filled(i.i);
      case FlatOp::kSubtractToZero: return filled(x);
      case FlatOp::kAnd: return x & most(state, i.y);
      case FlatOp::kOr:
      case FlatOp::kXor: return x | most(state, i.y);
      case FlatOp::kOrI:
      case FlatOp::kXorI: return x | i.i;
      case FlatOp::kShiftLeftI: return x << i.i;
      case FlatOp::kShiftRight: return filled(x);
      case FlatOp::kShiftRightI: return x >> i.i;
      default: return is_comparison(i.op) ? 1 : ~Cell{0};
    }
  }

  // False if the instruction can be removed.
  bool instruction(State& state, FlatInstruction& i) {
    const Operands o = operands(i.op);
    if (o.x) i.x = origin(state, i.x);
    if (o.y) i.y = origin(state, i.y);
    const bool computes = i.op <= FlatOp::kLessEqualI;
    if (!computes) {
      if (!o.d || i.op == FlatOp::kCallCondition) other(state, i);
      if (o.d) {
        state[i.d] = fresh(
            i.op == FlatOp::kArgument || i.op == FlatOp::kRegisterRead ? i.mask : ~Cell{0}, i.d);
      }
      return true;
    }
    if (i.op != FlatOp::kSet) simplify(state, i);
    if (i.op == FlatOp::kSet) return becomes(state, i.d, constant(i.i));
    if (i.op == FlatOp::kMove && i.mask == ~Cell{0}) return becomes(state, i.d, state[i.x]);
    const Key key{i.op, state[i.x], operands(i.op).y ? state[i.y] : 0, i.i, i.mask};
    const auto [found, is_new] = computed_.try_emplace(key, 0);
    if (is_new) {
      found->second = fresh(bits_of_result(state, i) & i.mask, i.d);
    } else if (const std::uint32_t home = numbers_[found->second].home;
               state[home] == found->second) {
      i = {.op = FlatOp::kMove, .d = i.d, .x = static_cast<std::uint16_t>(home)};
    } else {
      numbers_[found->second].home = i.d;
    }
    return becomes(state, i.d, found->second);
  }

  // False if the cell has this value already.
  static bool becomes(State& state, std::uint32_t cell, std::uint32_t number) {
    const bool changes = state[cell] != number;
    state[cell] = number;
    return changes;
  }

  void other(State& state, const FlatInstruction& i) {
    const Writes w = writes(image_, i);
    if (w.any) {
      state = unknown();
      return;
    }
    for (std::uint32_t cell : w.certain) forget(state, cell);
    for (std::uint32_t cell : w.perhaps) forget(state, cell);
    if (i.op == FlatOp::kMarkToDrop) {
      state[image_.verdict.group] = constant(0);
    } else if (i.op == FlatOp::kExtract) {
      state[image_.header_plans[i.i].valid_cell] = constant(1);
      state[image_.header_plans[i.i].dirty_cell] = constant(0);
    }
  }

  void learn(State& state, std::uint32_t cell, Cell value) {
    const std::uint32_t number = state[cell], now = constant(value);
    std::replace(state.begin(), state.end(), number, now);
  }

  // Notes what a comparing jump says about its operand, depending on whether it is taken.
  void learn_from(State& state, const FlatInstruction& jump, bool taken) {
    if (jump.op != FlatOp::kJumpEqualI && jump.op != FlatOp::kJumpNotEqualI) return;
    if ((jump.op == FlatOp::kJumpEqualI) == taken) {
      learn(state, jump.x, jump.i);
    } else if (most(state, jump.x) == 1 && jump.i <= 1) {
      learn(state, jump.x, 1 - jump.i);
    }
  }

  void block(std::uint32_t b, State& state) {
    FlatBlock& block = graph_.blocks[b];
    std::erase_if(block.body, [&](FlatInstruction& i) { return !instruction(state, i); });
    FlatInstruction& last = block.last;
    if (is_comparing_jump(last.op)) {
      last.x = origin(state, last.x);
      if (operands(last.op).y) last.y = origin(state, last.y);
      use_immediate(state, last);
      if (const auto taken = outcome(state, comparison_of(last.op), last)) {
        block.next = {block.next[*taken ? 0 : 1]};
        last = {.op = FlatOp::kJump};
      }
    } else {
      other(state, last);
    }
    for (std::size_t n = 0; n < block.next.size(); ++n) {
      State there = state;
      if (is_comparing_jump(last.op)) learn_from(there, last, n == 0);
      block.next[n] = goal(b, block.next[n], there);
      deliver(block.next[n], std::move(there));
    }
  }

  // Where the edge from b to `to` really leads, after skipping jumps whose outcome is known on it.
  std::uint32_t goal(std::uint32_t b, std::uint32_t to, const State& state) const {
    for (;;) {
      const FlatBlock& block = graph_.blocks[to];
      if (!block.body.empty() || is_loop_[to]) return to;
      std::uint32_t next = 0;
      if (block.last.op == FlatOp::kJump) {
        next = block.next[0];
      } else if (is_comparing_jump(block.last.op)) {
        const auto taken = outcome(state, comparison_of(block.last.op), block.last);
        if (!taken) return to;
        next = block.next[*taken ? 0 : 1];
      } else {
        return to;
      }
      if (rank_[next] <= rank_[b] && !is_loop_[next]) return to;  // already visited
      to = next;
    }
  }

  void deliver(std::uint32_t to, State&& state) {
    if (is_loop_[to] || to == 0) {
      reached_[to] = true;
      return;
    }
    if (!reached_[to]) {
      reached_[to] = true;
      before_[to] = std::move(state);
      return;
    }
    State& known = before_[to];
    for (std::uint32_t c = 0; c < known.size(); ++c) {
      if (known[c] == state[c]) continue;
      // The edges bring different values, so this is a new one.
      known[c] = fresh(numbers_[known[c]].most | numbers_[state[c]].most, c);
    }
  }

  struct Key {
    FlatOp op;
    std::uint32_t x, y;
    Cell i, mask;
    auto operator<=>(const Key&) const = default;
  };

  const Image& image_;
  FlatGraph& graph_;
  std::vector<Cell> width_;  // by cell: the bits that its field may have
  std::vector<Number> numbers_;
  std::map<Cell, std::uint32_t> constants_;
  std::map<Key, std::uint32_t> computed_;
  std::vector<std::uint32_t> rank_;  // by block: its position in in_order()
  std::vector<bool> is_loop_;        // by block: whether a path leads back to it
  std::vector<bool> reached_;
  std::vector<State> before_;  // by block: what is known at its start
};

}  // namespace

void propagate_values(const Image& image, FlatGraph& graph) { Propagation(image, graph).run(); }

}  // namespace tiercast::engine
