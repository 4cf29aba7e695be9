// Pipelines in one run of instructions each.
#include "dataplane/engine/flatten.h"

#include <map>
#include <set>

#include "dataplane/engine/flatten_expression.h"

namespace tiercast::engine {

namespace {

constexpr std::size_t kMostInstructions = 1 << 18;  // 8 MB; actions are copied to each caller
constexpr std::uint32_t kMostCells = 1 << 16;       // FlatInstruction names them with 16 bits

class PipelineWriter {
 public:
  PipelineWriter(const Image& image, FlatWriter& out) : image_(image), out_(out) {}

  // Every node once, each as soon as possible behind the one that leads to it.
  void write(std::uint32_t start) {
    end_ = out_.label();
    want(start);
    while (!wanted_.empty() && !too_long()) {
      std::uint32_t node = wanted_.back();
      wanted_.pop_back();
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

  Label want(std::uint32_t node) {
    if (node != kNone) wanted_.push_back(node);
    return label_of(node);
  }

  // Returns the node to go on with.
  std::uint32_t write_node(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kCondition:
        out_.condition(node.condition, want(node.if_false));
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
    out_.targets().push_back(want(table.next_without_action));
    for (std::size_t a = 0; a < table.actions.size() && !too_long(); ++a) {
      out_.bind(out_.targets()[targets + a]);
      out_.statements(image_.actions[table.actions[a]].code);
      if (table.next_by_hit) {
        out_.emit_jump({.op = FlatOp::kJumpHit}, want(table.next[0]));
        out_.jump(want(table.next[1]));
      } else {
        out_.jump(want(table.next[a]));
      }
    }
    return table.next_without_action;
  }

  const Image& image_;
  FlatWriter& out_;
  Label end_ = 0;
  std::map<std::uint32_t, Label> labels_;  // by node
  std::set<std::uint32_t> written_;
  std::vector<std::uint32_t> wanted_;
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
