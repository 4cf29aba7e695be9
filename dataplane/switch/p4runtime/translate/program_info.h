// P4Info joined with a program of the engine: maps P4Runtime's ids to the engine's names, widths
// and orders. Immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "p4/config/v1/p4info.pb.h"

namespace tiercast::vswitch {

class ProgramInfo {
 public:
  struct Field {  // one field of a table's key
    std::uint32_t id = 0;
    std::string name;
    engine::MatchKind kind = engine::MatchKind::kExact;
    unsigned width = 0;       // bits
    bool as_ternary = false;  // an optional field, which p4c passes to the engine as a ternary one
  };
  struct Parameter {  // one parameter of an action
    std::uint32_t id = 0;
    std::string name;
    unsigned width = 0;  // bits
  };
  struct Action {
    std::uint32_t id = 0;
    std::string name;
    std::vector<Parameter> parameters;  // in the engine's order
  };
  struct ActionUse {  // how a table uses an action
    const Action* action = nullptr;
    bool in_entries = true;  // may be in entries (not @defaultonly)
    bool as_default = true;  // may be the default action (not @tableonly)
  };
  using ActionUses = std::map<std::uint32_t, ActionUse>;  // by the id of the action
  using MeterType = p4::config::v1::MeterSpec::Type;
  struct Table {
    std::uint32_t id = 0;
    std::string name;
    std::vector<Field> fields;  // in the engine's order
    ActionUses actions;
    bool needs_priority = false;
    std::vector<engine::TableEntry> initial_entries;  // those that the program begins with
    bool is_const = false;                            // its entries are constant
    bool const_default = false;                       // its default action is constant
    bool has_idle_timeout = false;
    std::uint32_t direct_counter = 0;  // id; 0: none
    std::uint32_t direct_meter = 0;    // id; 0: none
    MeterType meter_type = {};         // of the direct meter
    std::uint32_t action_profile = 0;  // id; 0: none
    // "Default Entry": with an action profile, it is NoAction.
    bool has_const_default() const { return const_default || action_profile != 0; }
  };
  struct Array {  // an indirect counter or meter, or a register
    std::uint32_t id = 0;
    std::string name;
    std::uint64_t size = 0;     // number of cells
    unsigned width = 0;         // of a register: bits of a cell; 0: not a bit<W>
    MeterType meter_type = {};  // of a meter
  };
  struct ActionProfile {
    std::uint32_t id = 0;
    std::string name;
    ActionUses actions;            // those of its tables, which all have the same
    bool has_selector = false;     // if so, it has groups
    std::uint64_t size = 0;        // limit for all groups together; 0: no limit
    std::uint64_t group_size = 0;  // limit for one group; 0: no limit
    bool counts_weights = true;   // what the two limits count: the members' weights, or the members
    std::int32_t max_weight = 0;  // limit for one member; 0: no limit
    bool weights_disallowed = false;
  };
  // How a digest is composed of fields.
  struct DigestShape {
    enum class Kind { kBits, kBool, kStruct, kTuple, kHeader } kind = Kind::kBits;
    unsigned int_width = 0;            // kBits: W of an int<W>; 0: a bit<W>
    std::vector<DigestShape> members;  // for the last three kinds
    std::size_t fields() const;        // the number of bit and bool fields
  };
  struct Digest {
    std::uint32_t id = 0;
    std::string name;
    DigestShape shape;
    std::string unsupported;  // why the digest cannot be sent; empty if it can
  };
  struct ValueSet {
    std::uint32_t id = 0;
    std::string name;
    std::uint64_t size = 0;     // members
    std::vector<Field> fields;  // in the engine's order
  };

  // Throws RequestError INVALID_ARGUMENT if they disagree; the text names the object.
  ProgramInfo(const p4::config::v1::P4Info& info, std::shared_ptr<const engine::Program> program);

  const std::shared_ptr<const engine::Program>& program() const { return program_; }
  const std::map<std::uint32_t, Table>& tables() const { return tables_; }
  const std::map<std::uint32_t, Array>& counters() const { return counters_; }
  const std::map<std::uint32_t, Array>& registers() const { return registers_; }
  const std::map<std::uint32_t, Array>& meters() const { return meters_; }
  const std::map<std::uint32_t, ActionProfile>& action_profiles() const { return profiles_; }
  const std::map<std::uint32_t, Digest>& digests() const { return digests_; }
  const std::map<std::uint32_t, ValueSet>& value_sets() const { return value_sets_; }

  // Throw RequestError INVALID_ARGUMENT for an unknown id; the text names those that exist.
  const Table& table(std::uint32_t id) const;
  const Array& counter(std::uint32_t id) const;
  const Array& register_array(std::uint32_t id) const;
  const Array& meter(std::uint32_t id) const;
  const ActionProfile& action_profile(std::uint32_t id) const;
  const ValueSet& value_set(std::uint32_t id) const;
  // Throws RequestError NOT_FOUND.
  const Digest& digest(std::uint32_t id) const;
  // The table with this name, which the program must have.
  const Table& table(std::string_view name) const;
  const Digest& digest(std::string_view name) const;
  // actions: of a table or action profile. place: for messages.
  static const ActionUse& action(const ActionUses& actions, std::uint32_t id,
                                 const std::string& place);
  // The action with this name in the engine.
  static const Action& action(const ActionUses& actions, const std::string& name,
                              const std::string& place);

 private:
  void add_actions(const p4::config::v1::P4Info& info);
  void add_table(const p4::config::v1::Table& info);
  void add_meters(const p4::config::v1::P4Info& info);
  void add_profile(const p4::config::v1::ActionProfile& info);
  void add_digest(const p4::config::v1::Digest& info, const p4::config::v1::P4TypeInfo& types);
  void add_value_set(const p4::config::v1::ValueSet& info);

  std::shared_ptr<const engine::Program> program_;
  std::map<std::uint32_t, Action> actions_;
  std::map<std::uint32_t, Table> tables_;
  std::map<std::uint32_t, Array> counters_;
  std::map<std::uint32_t, Array> registers_;
  std::map<std::uint32_t, Array> meters_;
  std::map<std::uint32_t, ActionProfile> profiles_;
  std::map<std::uint32_t, Digest> digests_;
  std::map<std::uint32_t, ValueSet> value_sets_;
};

}  // namespace tiercast::vswitch
