// Why a packet was marked, dropped or passed: what a control executed for it, cut to what decides.
//
// The cut is a dynamic backward slice (Korel and Laski 1988) from the statement that marked or
// dropped the packet: what it computes with, and the branches that lead to it, and so on. Of a
// packet that passed it starts at the branches that led away from each statement that would have
// marked or dropped it; and where a value was not changed, it has the branches that led away from
// its change (a relevant slice: Agrawal et al. 1993). What moves or compares constants alone, of
// the program or of a table's entry, is left out: the entry says as much.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/engine/image/control_dependence.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/interpreter/effects.h"

namespace tiercast::engine {

// What is known of a program before any packet comes.
class DecisionPlan {
 public:
  // `image` must outlive this object.
  explicit DecisionPlan(const Image& image);

  struct EcnField {
    std::uint32_t cell;
    unsigned shift;  // bits right of the two of ECN
    bool is_congestion(const Cell* phv) const { return (phv[cell] >> shift & 3) == 3; }
  };

  const Image& image;
  const ControlDependence dependence;
  // Fields of IPv4 headers that hold the ECN field: those named ecn, or that cover its bits.
  std::vector<EcnField> ecn;
  std::vector<std::uint32_t> marking_nodes;  // those that may write such a field
  std::vector<std::uint32_t> fate_nodes;     // those that may drop, or decide where the packet goes
  std::vector<std::uint32_t> watched;        // cells of ECN fields, and of the packet's fate
  std::vector<std::string> names;            // of fields, by cell, as the P4 source has them
  std::vector<std::vector<std::uint32_t>> writers;  // nodes that may assign to a cell, by cell

 private:
  bool is_ecn(std::uint32_t cell) const;
};

enum class Outcome { kPassed, kMarked, kDropped };

class Decision {
 public:
  explicit Decision(const DecisionPlan& plan) : plan_(plan) {}

  // To be called in the order of execution.
  void branch(std::uint32_t node, bool taken, Effects effects);
  // `text`: the table's key and what it chose.
  void table(std::uint32_t node, const Cell* phv, std::string text);
  // A statement of an action of `node`. `marks`: it set ECN to congestion experienced.
  void statement(std::uint32_t node, const Action& action, const Statement& statement,
                 Effects effects, const Cell* after, bool marks);

  struct Cut {
    std::string by;                  // action that marked or dropped; empty: the packet passed
    std::string source;              // "red.p4:96"
    std::vector<std::string> lines;  // what decided, in the order of execution
  };
  Cut cut(Outcome outcome) const;
  // The last value of each register array that was read or written, by the array's name.
  std::vector<std::pair<std::string, std::string>> registers() const;
  bool marked() const { return marked_; }

 private:
  enum class Kind { kBranch, kTable, kStatement };
  struct Deed {
    Kind kind;
    std::uint32_t node;
    std::uint32_t place = 0;
    bool taken = false;
    bool marks = false;
    bool varies = false;  // it works with more than constants
    bool copies = false;  // it assigns one field to another
    Effects effects{};
    std::string text{};  // of a table
    const Action* action = nullptr;
    std::vector<std::pair<std::uint32_t, Cell>> results{};  // cells and what was written to them
  };

  bool varies(const Effects& effects) const;
  void set_varying(const Effects& effects, bool varying);
  std::size_t last_of_node(std::uint32_t node) const;  // deeds_.size(): it did not run
  bool ran(std::uint32_t node) const;
  // Wants the branches, of the deeds from `first` to `end` - 1, that led away from a node.
  void add_deviations(std::uint32_t node, std::size_t first, std::size_t end,
                      std::vector<bool>& seen, std::vector<bool>& wanted) const;
  // Of what deed `reader` read and nothing changed since, though something may have.
  void add_deviations(const Effects& effects, std::size_t reader, std::vector<bool>& wanted) const;
  bool drops(const Deed& deed) const;
  std::string line(const Deed& deed) const;
  void add_values(const Effects& effects, const std::string& source, std::string& text) const;

  const DecisionPlan& plan_;
  std::vector<Deed> deeds_;
  std::vector<bool> constant_;  // by cell
  bool marked_ = false;
};

}  // namespace tiercast::engine
