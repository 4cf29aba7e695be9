// P4Info and a program of the engine, joined: P4Runtime's ids to the engine's names, widths and
// orders. Immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/engine/program.h"
#include "p4/config/v1/p4info.pb.h"

namespace tiercast::vswitch {

class ProgramInfo {
 public:
  struct Field {  // of a table's key
    std::uint32_t id = 0;
    std::string name;
    engine::MatchKind kind = engine::MatchKind::kExact;
    unsigned width = 0;       // bits
    bool as_ternary = false;  // an optional field that p4c hands to the engine as a ternary one
  };
  struct Parameter {  // of an action
    std::uint32_t id = 0;
    std::string name;
    unsigned width = 0;  // bits
  };
  struct Action {
    std::uint32_t id = 0;
    std::string name;
    std::vector<Parameter> parameters;  // in the engine's order
  };
  struct ActionUse {  // of an action by a table
    const Action* action = nullptr;
    bool in_entries = true;  // not @defaultonly
    bool as_default = true;  // not @tableonly
  };
  struct Table {
    std::uint32_t id = 0;
    std::string name;
    std::vector<Field> fields;  // in the engine's order
    std::map<std::uint32_t, ActionUse> actions;
    bool needs_priority = false;
    bool is_const = false;       // entries
    bool const_default = false;  // default action
    bool has_idle_timeout = false;
    std::uint32_t direct_counter = 0;  // id; 0: none
  };
  struct Array {  // an indirect counter or a register
    std::uint32_t id = 0;
    std::string name;
    std::uint64_t size = 0;  // cells
    unsigned width = 0;      // bits of a register's cell; 0: not a bit<W>
  };

  // Throws RequestError INVALID_ARGUMENT where they disagree, naming the object.
  ProgramInfo(const p4::config::v1::P4Info& info, std::shared_ptr<const engine::Program> program);

  const std::shared_ptr<const engine::Program>& program() const { return program_; }
  const std::map<std::uint32_t, Table>& tables() const { return tables_; }
  const std::map<std::uint32_t, Array>& counters() const { return counters_; }
  const std::map<std::uint32_t, Array>& registers() const { return registers_; }

  // Throw RequestError INVALID_ARGUMENT naming the ids that exist.
  const Table& table(std::uint32_t id) const;
  const Array& counter(std::uint32_t id) const;
  const Array& register_array(std::uint32_t id) const;
  // Of the actions of this table.
  static const ActionUse& action(const Table& table, std::uint32_t id);
  // By the engine's name.
  static const Action& action(const Table& table, const std::string& name);

 private:
  void add_actions(const p4::config::v1::P4Info& info);
  void add_table(const p4::config::v1::Table& info);

  std::shared_ptr<const engine::Program> program_;
  std::map<std::uint32_t, Action> actions_;
  std::map<std::uint32_t, Table> tables_;
  std::map<std::uint32_t, Array> counters_;
  std::map<std::uint32_t, Array> registers_;
};

}  // namespace tiercast::vswitch
