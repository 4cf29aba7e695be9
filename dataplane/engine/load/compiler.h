// Compiles bmv2 JSON to an Image. A Compiler is used for one load only. Every failure throws
// Refused.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/load/json.h"

namespace tiercast::engine {

class Compiler {
 public:
  // architectures: those that a program may be written for. part: which image of the program it is
  // to be; kEgress only for an architecture that parses twice.
  enum class Part { kFirst, kEgress };
  Compiler(const Json& root, std::span<const Architecture* const> architectures, Part part,
           Image& image)
      : root_(root), architectures_(architectures), part_(part), image_(image) {}
  void compile();

  // --- For architectures --- Empty if the program has no such header or field.
  std::optional<Field> find_field(std::string_view header, std::string_view name) const;
  // The field that the program maps to a name of bmv2's, such as "intrinsic_metadata.mcast_grp".
  // Empty if there is none.
  std::optional<Field> field_alias(const std::string& name) const;
  // Emits code that pushes a value, or an operation, into the current statement.
  void value(const Json& node);
  void emit(Op op, std::uint32_t a = 0, std::uint32_t b = 0, std::uint32_t width = 0);
  void push(Cell number);                       // emits code that pushes it
  std::uint32_t small(const Json& node) const;  // a "hexstr" constant below 2^31
  // Emits a store of the value that push_value pushes.
  void store_to(const Json& lvalue, const std::function<void()>& push_value);
  bool is_egress() const { return part_ == Part::kEgress; }
  // Adds a metadata header with one field.
  void add_metadata(const Json& node, const std::string& header, const std::string& field,
                    std::uint32_t width);
  // table: of a direct meter, else empty.
  void add_meter(const Json& node, MeterArray meter, std::string table = {});
  // For a parameter that names a counter, a meter or an extern instance.
  std::uint32_t counter(const Json& parameter) const;
  std::uint32_t meter(const Json& parameter) const;  // indirect
  const Json& instance(const Json& parameter) const;
  // The value that an extern instance's constructor gave to an attribute.
  static const Json& attribute(const Json& instance, std::string_view name);
  // Adds a calculation over a parameter of type "field_list". Its fields count whether their
  // headers are valid or not; zeros before them fill it up to whole bytes. of_words: refuses bits
  // that are no whole 16-bit words.
  std::uint32_t field_list_calculation(const std::string& name, Algorithm algorithm,
                                       const Json& parameter, bool of_words);
  static Algorithm algorithm(const Json& name);
  // For a "hexstr" parameter: the index of the field list with this id (0: none), or of the digest.
  std::uint32_t field_list(const Json& id) const;
  std::uint32_t digest(const Json& id) const;

 private:
  // A "hexstr" number as sign and magnitude.
  struct Number {
    bool negative = false;
    std::vector<Cell> magnitude;  // least significant first, at least one cell
    unsigned bits = 0;            // of the magnitude
  };
  using NameMap = std::unordered_map<std::string, std::uint32_t>;

  // compile_headers.cpp: the packet vector.
  void check_version();
  void find_architecture();
  void compile_errors();
  void compile_headers();
  void place_header(std::uint32_t index, const Json& type);
  void compile_unions();
  void compile_stacks(const char* list, const char* members, bool of_unions);
  // Whether two lists of headers have the same fields, header by header.
  bool same_layout(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) const;
  void compile_field_lists();
  void compile_deparser();
  void compile_deparser_code();
  void compile_externs();
  // This image's parser or deparser. The JSON's list of them holds one, or one each for
  // ingress and egress.
  const Json& own(const char* list, const char* what) const;
  std::uint32_t header_named(const Json& name) const;
  // of: what the stack must consist of.
  enum class StackOf { kAny, kHeaders, kUnions };
  std::uint32_t stack_named(const Json& name, StackOf of = StackOf::kAny) const;
  std::uint32_t union_named(const Json& name) const;
  // A field reference's "value": [header, field]. $valid$ counts as a field of one bit.
  Field field_at(const Json& pair) const;
  std::uint32_t field_index(std::uint32_t header, const Json& name) const;

  // compile_expression.cpp: compiles one statement at a time into pending_.
  // Removes the wrapping of {"type": "expression", "value": {"type": ...}}.
  static const Json& unwrap(const Json& node);
  static Number number(const Json& hex);
  static Bytes bytes(const Json& hex);
  void operation(const Json& node);
  void equality(const Json& left, const Json& right, bool equal);
  void constant(const Number& number);
  void push_field(const Field& field, const Json& place);
  // Pushes a reference to a header or union. Returns one of the headers (or unions) that it may
  // mean.
  struct Reference {
    std::uint32_t index;
    bool is_union;
  };
  Reference reference(const Json& node);
  std::uint32_t header_reference(const Json& node);  // refuses a union
  // Moves the statement to the image's code. keep: it leaves a result for the next instruction.
  void finish(bool keep = false);
  CodeRange condition(const Json& node);
  std::uint32_t here() const { return static_cast<std::uint32_t>(image_.code.size()); }

  // compile_action.cpp
  void compile_actions();
  void primitive(const Json& node);
  void assign(const Json& to, const Json& from);
  void log_message(const Json& parameters);
  // Where a statement or condition is in the P4 source, as an index into Image::places.
  std::uint32_t place(const Json& node);
  void jump(const Json& node, bool conditional);
  std::uint32_t calculation_named(const Json& name) const;

  // compile_parser.cpp
  void compile_parsers();
  // Returns the start state's index.
  std::uint32_t compile_parser(const Json& parser, std::vector<ParserState>& states);
  void parser_operation(const Json& node);
  void extract(const Json& node, bool varbit);
  ParserKey parser_key(const Json& node);
  void transition(const Json& node, ParserState& state, const NameMap& states);

  // compile_state.cpp: what outlives a packet.
  void compile_state();
  void compile_registers();
  void compile_counters();
  void compile_meters();
  void compile_value_sets();
  void compile_digests();
  void compile_action_profile(const Json& node);

  // compile_tables.cpp
  void compile_pipelines();
  void compile_pipeline(const Json& node);
  void refuse_loops(std::uint32_t start, std::vector<char>& state) const;
  void compile_table(const Json& node);
  void table_next(const Json& node, Table& table, const NameMap& nodes);
  void table_meter(const Json& node, Table& table, TableInfo& info);
  void table_profile(const Json& node, Table& table, TableInfo& info);
  void table_default(const Json& node, Table& table);
  Key table_key(const Json& node, const Json& table) const;
  void table_entries(const Json& node, const Table& table, TableInfo& info);
  TableEntry table_entry(const Json& node, const Table& table) const;  // without its priority
  std::uint32_t node_named(const Json* name, const NameMap& nodes) const;
  std::uint32_t action_with_id(const Json& id) const;
  std::vector<Cell> arguments(const Json& data, const Action& action) const;

  // compile_calculations.cpp
  void compile_calculations();
  void compile_checksums();
  Calculation calculation(const Json& algorithm, const Json& inputs);
  std::uint32_t add_calculation(Calculation c);
  CalculationInput field_input(const Field& field, std::uint32_t header) const;

  const Json& root_;
  std::span<const Architecture* const> architectures_;
  const Part part_;
  Image& image_;
  std::unordered_map<std::string, const Json*> instances_;  // of externs
  NameMap headers_, stacks_, unions_, registers_, counters_, calculations_;
  NameMap meters_, value_sets_, profiles_;
  std::map<std::int64_t, std::uint32_t> digests_;      // JSON id -> index
  std::map<std::int64_t, std::uint32_t> actions_;      // JSON id -> index
  std::map<std::int64_t, std::uint32_t> field_lists_;  // JSON id -> index
  const Action* action_ = nullptr;                     // whose code is being compiled

  std::vector<Instruction> pending_;
  unsigned depth_ = 0;                                        // numbers on the stack after pending_
  bool wide_ = false;                                         // pending_ needs Wide numbers
  std::vector<std::uint32_t> starts_;                         // code index of each primitive
  std::vector<std::pair<std::uint32_t, const Json*>> jumps_;  // code index -> its target
};

}  // namespace tiercast::engine
