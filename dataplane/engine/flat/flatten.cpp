// Turns each pipeline into one run of instructions.
#include "dataplane/engine/flat/flatten.h"

#include <algorithm>
#include <map>
#include <set>

#include "dataplane/engine/flat/flatten_expression.h"

namespace tiercast::engine {

namespace {

constexpr std::size_t kMostInstructions = 1 << 18;  // 8 MB; each caller of an action gets a copy of
                                                    // it
constexpr std::uint32_t kMostCells = 1 << 16;       // FlatInstruction has 16 bits for a cell

class PipelineWriter {
 public:
  PipelineWriter(const Image& image, FlatWriter& out) : image_(image), out_(out) {}

  // Writes each node once, as soon as possible after the one that leads to it.
  void write(std::uint32_t start) {
    end_ = out_.label();
    enqueue(start);
    while (!pending_.empty() && !too_long()) {
      std::uint32_t node = pending_.back();
      pending_.pop_back();
      if (written_.contains(node)) continue;
      while (node != kNone && !written_.contains(node) && !too_long()) {
        written_.insert(node);
        out_.bind(label_of(node));
        node = write_node(image_.nodes[node]);
      }
      out_.jump(label_of(node));
    }
    out_.bind(end_);
    out_.emit({.op = FlatOp::kEnd});
  }

 private:
  bool too_long() const { return out_.code().size() > kMostInstructions; }

  Label label_of(std::uint32_t node) {
    if (node == kNone) return end_;
    const auto [found, is_new] = labels_.try_emplace(node, 0);
    if (is_new) found->second = out_.label();
    return found->second;
  }

  Label enqueue(std::uint32_t node) {
    if (node != kNone) pending_.push_back(node);
    return label_of(node);
  }

  // Returns the node to continue with.
  std::uint32_t write_node(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kCondition:
        out_.condition(node.condition, enqueue(node.if_false));
        return node.if_true;
      case Node::Kind::kAction:
        out_.statements(image_.actions[node.index].code);
        return node.if_true;
      case Node::Kind::kTable: return write_table(image_.tables[node.index], node.index);
    }
    return kNone;
  }

  std::uint32_t write_table(const Table& table, std::uint32_t index) {
    const std::uint32_t action = table.default_action;
    const bool always_default = table.keys.empty() && table.const_default && action != kNone &&
                                image_.actions[table.actions[action]].argument_cells == 0;
    if (always_default) {
      out_.statements(image_.actions[table.actions[action]].code);
      return table.next_by_hit ? table.next[1] : table.next[action];
    }
    const std::size_t targets = out_.targets().size();
    out_.emit({.op = FlatOp::kTable, .target = static_cast<std::uint32_t>(targets), .i = index});
    for (std::size_t a = 0; a < table.actions.size(); ++a) out_.targets().push_back(out_.label());
    out_.targets().push_back(enqueue(table.next_without_action));
    for (std::size_t a = 0; a < table.actions.size() && !too_long(); ++a) {
      out_.bind(out_.targets()[targets + a]);
      out_.statements(image_.actions[table.actions[a]].code);
      if (table.next_by_hit) {
        out_.emit_jump({.op = FlatOp::kJumpHit}, enqueue(table.next[0]));
        out_.jump(enqueue(table.next[1]));
      } else {
        out_.jump(enqueue(table.next[a]));
      }
    }
    return table.next_without_action;
  }

  const Image& image_;
  FlatWriter& out_;
  Label end_ = 0;
  std::map<std::uint32_t, Label> labels_;  // by node
  std::set<std::uint32_t> written_;
  std::vector<std::uint32_t> pending_;
};

// Writes the parser's states in the order in which they can be reached, and selects as chains of
// jumps.
class ParserWriter {
 public:
  ParserWriter(const Image& image, FlatWriter& out)
      : image_(image), out_(out), written_(image.parser_states.size()) {
    for (std::size_t s = 0; s < image.parser_states.size(); ++s) labels_.push_back(out.label());
    accept_ = out.label();
  }

  void write() {
    has_loop_ = find_loop();
    open_ = {image_.parser_start};
    out_.jump(label_of(image_.parser_start));
    while (!open_.empty()) {
      const std::uint32_t state = open_.back();
      open_.pop_back();
      if (state == kNone || written_[state]) continue;
      written_[state] = true;
      out_.bind(labels_[state]);
      if (has_loop_) out_.emit({.op = FlatOp::kNextState});
      write_state(image_.parser_states[state], state);
    }
    // States that nothing reaches stand in the targets of kRunState. Their own code could be a jump
    // to itself, since has_loop_ says nothing of them.
    for (std::uint32_t state = 0; state < labels_.size(); ++state) {
      if (!written_[state]) out_.bind(labels_[state]);
    }
    out_.bind(accept_);
    out_.emit({.op = FlatOp::kEnd});
  }

 private:
  struct KeyPart {
    std::uint16_t cell;
    std::uint32_t width;
    std::uint32_t word;
  };

  Label label_of(std::uint32_t state) { return state == kNone ? accept_ : labels_[state]; }

  // Whether a state can reach itself.
  bool find_loop() const {
    enum Colour { kNew, kOnPath, kDone };
    std::vector<Colour> colour(image_.parser_states.size(), kNew);
    std::vector<std::pair<std::uint32_t, std::size_t>> path = {{image_.parser_start, 0}};
    colour[image_.parser_start] = kOnPath;
    while (!path.empty()) {
      auto& [state, n] = path.back();
      const auto& transitions = image_.parser_states[state].transitions;
      if (n == transitions.size()) {
        colour[state] = kDone;
        path.pop_back();
        continue;
      }
      const std::uint32_t next = transitions[n++].next;
      if (next == kNone || colour[next] == kDone) continue;
      if (colour[next] == kOnPath) return true;
      colour[next] = kOnPath;
      path.emplace_back(next, 0);
    }
    return false;
  }

  // Whether the select uses only fields and lookaheads of up to 64 bits each.
  bool has_flat_key(const ParserState& state) const {
    const bool plain_key = std::all_of(state.key.begin(), state.key.end(), [&](const auto& part) {
      const Op op = image_.code[part.code.begin].op;
      return part.cells == 1 && part.code.end - part.code.begin == 1 &&
             (op == Op::kField || op == Op::kLookahead);
    });
    return plain_key && std::all_of(state.transitions.begin(), state.transitions.end(),
                                    [](const auto& t) { return t.value_set == kNone; });
  }

  void write_state(const ParserState& state, std::uint32_t index) {
    for (auto t = state.transitions.rbegin(); t != state.transitions.rend(); ++t) {
      open_.push_back(t->next);
    }
    if (!has_flat_key(state)) {
      out_.emit({.op = FlatOp::kRunState,
                 .target = static_cast<std::uint32_t>(out_.targets().size()),
                 .i = index});
      for (Label label : labels_) out_.targets().push_back(label);
      out_.targets().push_back(accept_);
      return;
    }
    out_.statements(state.ops);
    out_.free_temporaries();
    std::vector<KeyPart> key;
    std::uint32_t word = 0;
    for (const ParserKey& part : state.key) {
      const Instruction& i = image_.code[part.code.begin];
      if (i.op == Op::kField) {
        key.push_back({static_cast<std::uint16_t>(i.a), part.width, word++});
        continue;
      }
      const std::uint16_t cell = out_.temporary();
      out_.emit({.op = FlatOp::kLookahead, .d = cell, .target = i.width, .i = i.a});
      key.push_back({cell, part.width, word++});
    }
    for (const ParserTransition& t : state.transitions) write_transition(t, key);
    out_.emit({.op = FlatOp::kReject, .i = image_.error_no_match});
  }

  void write_transition(const ParserTransition& t, const std::vector<KeyPart>& key) {
    const Label other = out_.label();
    for (const KeyPart& part : key) {
      if (t.value.empty() || t.mask[part.word] == 0) continue;
      std::uint16_t cell = part.cell;
      if (t.mask[part.word] != low_mask(part.width)) {
        cell = out_.temporary();
        out_.emit({.op = FlatOp::kAndI, .d = cell, .x = part.cell, .i = t.mask[part.word]});
      }
      out_.emit_jump({.op = FlatOp::kJumpNotEqualI, .x = cell, .i = t.value[part.word]}, other);
    }
    out_.jump(label_of(t.next));
    out_.bind(other);
  }

  const Image& image_;
  FlatWriter& out_;
  std::vector<bool> written_;
  std::vector<Label> labels_;  // by state
  Label accept_ = 0;
  std::vector<std::uint32_t> open_;  // states still to be written
  bool has_loop_ = false;
};

void write_checksums(const Image& image, FlatWriter& out, bool update) {
  for (std::uint32_t c = 0; c < image.checksums.size(); ++c) {
    const Checksum& checksum = image.checksums[c];
    if (!(update ? checksum.update : checksum.verify)) continue;
    const Label skip = out.label();
    if (!checksum.condition.empty()) out.condition(checksum.condition, skip);
    out.emit({.op = update ? FlatOp::kUpdateChecksum : FlatOp::kVerifyChecksum, .i = c});
    out.bind(skip);
  }
  out.emit({.op = FlatOp::kEnd});
}

}  // namespace

void flatten(Image& image) {
  image.shared_cells = image.phv_cells;
  if (image.phv_cells >= kMostCells) return;
  FlatWriter out(image);
  FlatCode flat;
  const auto here = [&] { return static_cast<std::uint32_t>(out.code().size()); };
  flat.parser = here();
  ParserWriter(image, out).write();
  flat.verify_checksums = here();
  write_checksums(image, out, false);
  flat.ingress = here();
  PipelineWriter(image, out).write(image.ingress_start);
  flat.egress = here();
  PipelineWriter(image, out).write(image.egress_start);
  flat.update_checksums = here();
  write_checksums(image, out, true);
  if (here() > kMostInstructions || image.phv_cells + out.temporaries() >= kMostCells) return;
  out.resolve(flat);
  image.phv_cells += out.temporaries();
  image.flat = std::move(flat);
}

}  // namespace tiercast::engine
