// The compiled form of a program: where each field is in the packet vector, and flat code.
//
// The packet vector (PHV) is an array of 64-bit cells. A header is a run of cells: its validity (0
// or 1), then its fields, each in as many cells as its width needs, least significant first. A
// varbit field is a cell with its present length in bits, then its value.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/image/flat_code.h"
#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

class Architecture;  // arch/architecture.h
class MatchTable;    // tables/match_table.h

constexpr std::uint32_t kNone = 0xffffffff;

struct Field {
  std::string name;
  std::uint32_t cell = 0;
  std::uint32_t width = 0;  // bits; of a varbit field: the largest
  bool is_signed = false;
  bool is_varbit = false;
};

struct Header {
  std::string name;
  std::string type;
  bool metadata = false;
  std::uint32_t valid_cell = 0;  // the header's first cell
  std::uint32_t cells = 0;       // including the validity cell
  std::uint32_t fixed_bits = 0;  // without the varbit field
  std::uint32_t max_bytes = 0;
  std::uint32_t varbit = kNone;        // index into fields
  std::uint32_t header_union = kNone;  // at most one member of a union is valid
  std::vector<Field> fields;
};

struct HeaderStack {
  std::string name;
  std::uint32_t next_cell = 0;         // index of the element that the parser extracts next
  std::vector<std::uint32_t> headers;  // or unions, in a stack of unions
  bool of_unions = false;
};

struct HeaderUnion {
  std::string name;
  std::vector<std::uint32_t> headers;
};

// Operations work on a stack of numbers (run/interpreter/interpreter.h). Below, [..] is what an
// operation pops, and -> is followed by what it pushes.
enum class Op : std::uint8_t {
  // Numbers.
  kConstant,      // -> constants[a]
  kWideConstant,  // -> wide_constants[a]
  kField,         // -> the field at cell a, `width` bits
  kSignedField,   // the same, sign-extended
  kArgument,      // -> the action's argument at cell a, `width` bits
  kLookahead,     // -> `width` bits that lie a bits ahead of the parser
  kRegisterRead,  // [index] -> register a's cell
  kRandom,        // [low, high] -> a number between them
  kHash,          // [base, modulus] -> base + calculation a mod modulus
  kCalculation,   // -> calculation a
  kOnesSum,    // [sum] -> its one's complement sum with the 16-bit words of calculation a's input;
               // with b, these are subtracted
  kLastIndex,  // -> index of the last extracted element of stack a
  kStackSize,  // -> the number of valid elements of stack a
  kVarbitEqual,  // -> whether varbit fields at cells a and b are equal
  // Arithmetic and logic, [left, right] -> result unless said otherwise.
  kAdd,
  kSubtract,
  kMultiply,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kDivide,            // rounds towards 0; division by 0 gives 0
  kRemainder,         // of the division by kDivide
  kComplement,        // [number]
  kNegate,            // [number]
  kNot,               // [boolean]
  kToBool,            // [number] -> whether it is not 0
  kSelect,            // [condition, if true, if false]
  kTwoCompMod,        // [number, bits] -> its value as a signed number of that width
  kSaturate,          // [number, bits] -> clamped to a signed number of that width
  kSaturateUnsigned,  // [number, bits]
  // Header references, as numbers. An index outside a stack gives a reference to nothing.
  kHeader,         // -> header a
  kElement,        // [index] -> element of stack a (a header, or a union)
  kLastElement,    // -> the last extracted element of stack a
  kUnionMember,    // [union] -> its member a
  kFieldOf,        // [header] -> its field a; 0 for a reference to nothing
  kSignedFieldOf,  // the same, sign-extended
  kValid,          // [header] -> its validity
  kUnionValid,     // [union] -> whether a member is valid
  kHeadersEqual,   // [header, header] -> both invalid, or both valid with equal fields
  // Fields and headers.
  kStore,         // [number]: to the field at cell a, `width` bits
  kStoreFieldOf,  // [header, number]: to its field a
  kCopyCell,      // field at cell a (`width` bits) = field at cell b
  kSetCell,       // field at cell a = constants[b] (cut to `width` bits at load)
  kCopyArgument,  // copies the argument at cell b to the field at cell a (`width` bits)
  kCopyVarbit,    // varbit at cell a = varbit at cell b, `width` bits at most
  kAddHeader,     // [header]
  kRemoveHeader,  // [header]
  kAssignHeader,  // [to, from]
  kAssignStack,   // stack a = stack b
  kPush,
  kPop,  // shifts stack a by b elements
  // State outside the packet.
  kRegisterWrite,  // [index, number]: register a
  kCount,          // [index]: counter a
  kMeter,          // [index] -> the colour that meter a gives to the packet
  // Control flow within a code range: a is an index into the code.
  kJump,
  kJumpIfZero,  // [number]
  kLoop,        // a jump backwards
  kLoopIfZero,  // [number]
  kWide,        // runs the next a instructions on Wide numbers; b: pushes their result
  kExit,
  // Parser.
  kExtract,                  // header a
  kExtractVarbit,            // [bits]: header a
  kExtractStack,             // the next element of stack a
  kExtractStackVarbit,       // [bits]
  kExtractUnionStack,        // member b of the next element of stack a
  kExtractUnionStackVarbit,  // [bits]
  kAdvance,                  // [bits]
  kVerify,                   // [condition, error]
  // The packet's fate. These leave notes for the architecture (PacketState), which acts on them
  // when the control ends. Only kMarkToDrop acts at once: it sets the drop port and clears the
  // multicast group.
  kMarkToDrop,
  kCloneIngress,
  kCloneEgress,  // [session]: keeps the fields of list a
  kResubmit,
  kRecirculate,  // keeps the fields of list a
  kTruncate,     // [bytes]
  kDigest,       // sends digest a
  kLog,          // [b numbers]: log message a
  kAssert,       // [boolean]: text a says what failed
};

struct Instruction {
  Op op;
  std::uint16_t width = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

// How many numbers an operation adds to the stack (negative: takes off). 0 for kWide, because the
// operations that it runs count themselves.
int stack_effect(const Instruction& instruction);

// code[begin] to code[end - 1].
struct CodeRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool empty() const { return begin == end; }
};

struct ParserTransition {
  std::vector<Cell> value, mask;    // laid out as the key's cells
  std::uint32_t value_set = kNone;  // if set, matches any member of this value set
  std::uint32_t next = kNone;       // next state; kNone: accept
};

struct ParserKey {
  CodeRange code;       // pushes the value
  std::uint32_t cells;  // 1, or more with a wide field
  std::uint32_t width;
};

struct ParserState {
  std::string name;
  CodeRange ops;
  std::vector<ParserKey> key;
  std::uint32_t key_cells = 0;
  std::vector<ParserTransition> transitions;  // a default transition has an empty value
};

struct CalculationInput {
  enum class Kind { kField, kVarbit, kConstant } kind;
  std::uint32_t valid_cell = kNone;  // skipped while this cell is 0
  std::uint32_t cell = 0;            // of the field, or the index into cell_constants
  std::uint32_t width = 0;
};

enum class Algorithm {
  kCsum16,
  kXor16,
  kCrc16,
  kCrc32,
  kCrc16Custom,
  kCrc32Custom,
  kCrcCcitt,
  kIdentity,
  kRandom
};

struct Calculation {
  std::string name;
  Algorithm algorithm;
  std::vector<CalculationInput> inputs;
  std::uint32_t max_bytes = 0;  // without the payload
  bool with_payload = false;    // what the parser left of the frame follows the inputs
};

struct Checksum {
  CodeRange condition;  // pushes a boolean; empty: always
  std::uint32_t cell = 0;
  std::uint32_t width = 0;
  std::uint32_t calculation = 0;
  bool update = false;
  bool verify = false;
  // For verification: the sum over the fields equals the sum over this header's bytes, in which the
  // checksum lies this many bits above a multiple of 32. kNone: there is no such header.
  std::uint32_t whole_header = kNone;
  std::uint32_t whole_header_shift = 0;
};

struct ActionParameterLayout {
  std::uint32_t cell = 0;  // in the arguments
  std::uint32_t width = 0;
};

struct Action {
  std::string name;
  std::vector<ActionParameterLayout> parameters;
  std::uint32_t argument_cells = 0;
  CodeRange code;
};

struct Key {
  MatchKind kind;
  std::uint32_t cell = 0;  // in the packet vector
  std::uint32_t width = 0;
  std::uint32_t word = 0;  // offset in the table's key
  std::vector<Cell> mask;  // static mask; empty: none
  std::uint32_t words() const { return cells_for(width); }
};

struct Table {
  std::string name;
  std::string source;  // of the declaration in the P4 source, or empty
  std::vector<Key> keys;
  std::uint32_t key_words = 0;
  std::vector<std::uint32_t> actions;         // indices into Image::actions
  std::vector<std::uint32_t> next;            // node after each action; with next_by_hit, after a
                                              // hit and after a miss
  bool next_by_hit = false;                   // next[0]: hit, next[1]: miss
  std::uint32_t next_without_action = kNone;  // after a miss in a table without a default action
  std::uint32_t default_action = kNone;       // index into actions
  std::vector<Cell> default_arguments;
  bool const_default = false;
  bool direct_counter = false;
  std::uint32_t direct_meter = kNone;  // index into Image::meters
  Field meter_target;                  // where the direct meter writes the colour
  std::uint32_t profile = kNone;       // if set, entries refer to members or groups of this profile
  bool supports_timeout = false;
  std::uint64_t max_size = 0;
};

struct Node {
  enum class Kind { kTable, kCondition, kAction } kind;
  std::uint32_t index = 0;  // table or action
  CodeRange condition;
  std::uint32_t if_true = kNone;  // for kAction: the node that follows
  std::uint32_t if_false = kNone;
  std::uint32_t place = 0;  // for kCondition
};

// For traces: a place in the P4 source, and its text.
struct Place {
  std::string source;  // "router.p4:42", or empty
  std::string text;
};

struct Statement {  // one statement of an action
  CodeRange code;
  std::uint32_t place = 0;
};

struct RegisterArray {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t width = 0;
  std::uint32_t cells() const { return cells_for(width); }
  // Element i has the cells of the program's registers from first + i * stride on.
  std::uint64_t first = 0, stride = 1;
};

struct MeterArray {
  std::string name;
  std::uint64_t size = 0;  // 0: direct
  bool bytes = false;      // counts bytes; otherwise packets
};

struct ActionProfile {
  std::string name;
  std::uint64_t max_size = 0;          // members
  std::uint32_t hash = kNone;          // the selector's calculation
  std::vector<std::uint32_t> actions;  // indices into Image::actions: those of the profile's tables
};

struct DigestField {
  Field field;
  Bytes constant;  // if not empty, replaces the field: a value in whole bytes
};

struct Digest {
  std::string name;
  std::vector<DigestField> fields;
};

struct ValueSet {
  std::string name;
  std::uint64_t max_size = 0;         // members
  std::uint32_t bits = 0;             // of all parts together
  std::vector<std::uint32_t> widths;  // bits of each part of the keys compared with it
};

// The text of a log_msg between its arguments, so there is one piece more than arguments.
struct LogFormat {
  std::vector<std::string> pieces;
};

// Where an architecture's own metadata are. Each architecture derives what it needs.
struct ArchitectureFields {
  virtual ~ArchitectureFields() = default;
};

// Where a program states the packet's fate: the cells of the port and of the multicast group, or of
// a flag that drops it.
struct VerdictCells {
  std::uint32_t port = 0;
  std::uint32_t group = 0;
  std::uint32_t drop = 0;  // 0: there is no flag; the drop port drops
};

struct FieldList {
  std::vector<Field> fields;
};

// A parser, the controls behind it and a deparser. An architecture that parses twice has two images
// of each program, which differ in these alone.
struct Image {
  std::string name;
  std::uint32_t phv_cells = 1;     // cell 0 is the scratch cell
  std::uint32_t metadata_end = 1;  // cells [1, metadata_end) are metadata
  std::uint32_t max_header_bytes = 0;
  std::vector<Header> headers;
  std::vector<HeaderStack> stacks;
  std::vector<HeaderUnion> unions;

  const Architecture* architecture = nullptr;  // the one that the program was made for
  std::shared_ptr<const ArchitectureFields> fields;
  VerdictCells verdict;
  std::uint32_t checksum_error_cell = 0;  // set to 1 when a checksum is verified and is wrong
  std::vector<Field> read_behind;         // metadata that the architecture reads after a control
  // The program's numbers for a meter's green, yellow and red.
  std::array<std::uint8_t, 3> meter_colours = {0, 1, 2};
  // Egress, if it has a parser and a deparser of its own. This image is then ingress alone.
  std::shared_ptr<const Image> egress;

  std::vector<Instruction> code;
  std::vector<Word> constants;
  std::vector<Wide> wide_constants;
  std::vector<Cell> cell_constants;

  std::vector<ParserState> parser_states;
  std::uint32_t parser_start = kNone;
  std::uint32_t error_packet_too_short = 1;
  std::uint32_t error_no_match = 2;
  std::uint32_t error_stack_out_of_bounds = 3;
  std::uint32_t error_header_too_short = 4;
  std::uint32_t error_parser_invalid_argument = 6;

  std::vector<std::uint32_t> deparser_order;
  CodeRange deparser_code;  // runs before the headers are written
  std::vector<Calculation> calculations;
  std::vector<Checksum> checksums;
  std::uint32_t max_calculation_bytes = 0;

  std::vector<Action> actions;
  std::vector<Table> tables;
  std::vector<Node> nodes;
  std::vector<Place> places = {{}};   // places[0] is nowhere
  std::vector<Statement> statements;  // of all actions, in code order
  std::uint32_t ingress_start = kNone;
  std::uint32_t egress_start = kNone;
  std::vector<RegisterArray> registers;
  std::uint64_t register_cells = 0;  // of all arrays (place_registers.h)
  std::vector<std::uint64_t> counter_sizes;
  std::vector<FieldList> field_lists;  // field_lists[0] is empty
  std::vector<MeterArray> meters;
  std::vector<ActionProfile> profiles;
  std::vector<Digest> digests;
  std::vector<ValueSet> value_sets;
  std::vector<LogFormat> log_formats;
  std::vector<std::string> assertions;  // texts for kAssert

  // The fast form (flatten.h). The cells from shared_cells on hold intermediate results, which a
  // copy of a packet does not need.
  std::uint32_t shared_cells = 1;
  FlatCode flat;
  // The only cells of a new packet, or of a copy in a queue, that flat code reads before it writes
  // them.
  std::vector<CellRun> initial_runs, copied_runs;
  // Cells that flat egress reads before it writes them, in ascending order. They hold their final
  // values when a packet enters a queue. Empty if this was not analysed.
  std::vector<std::uint32_t> egress_reads;
  std::vector<HeaderPlan> header_plans;       // one for each of `headers`
  std::vector<std::uint32_t> copied_headers;  // plain headers that other plain headers are assigned
                                              // to
  std::uint32_t tracked_cell = 0;  // this cell is 1 while the headers' dirty cells are reliable
  // Whether a packet's headers may be written to its frame before egress: true if no copy of a
  // header, which would come from the same place of the frame, can outlive ingress.
  bool early_rewrite = false;
  // After early_rewrite the frame stays valid while these cells are 0: the validity and dirty cells
  // that flat egress may write. Absent: egress may change headers in other ways.
  std::optional<std::vector<std::uint32_t>> egress_watch;
  std::vector<std::uint32_t> always_dirty;   // dirty cells of headers that are also written outside
                                             // flat code
  std::vector<DeparseStep> deparse_steps;    // in the order of deparser_order
  std::vector<ChecksumPlan> checksum_plans;  // one for each of `calculations`

  std::vector<TableInfo> table_infos;                           // one for each of `tables`
  std::vector<std::shared_ptr<const MatchTable>> first_tables;  // the same, with initial_entries
  std::vector<ActionInfo> action_infos;                         // one for each of `actions`
  std::vector<CounterInfo> counter_infos;    // one for each of counter_sizes, then the direct
                                             // counters
  std::vector<RegisterInfo> register_infos;  // one for each of `registers`
  std::vector<MeterInfo> meter_infos;        // one for each of `meters`
  std::vector<ActionProfileInfo> profile_infos;
  std::vector<DigestInfo> digest_infos;
  std::vector<ValueSetInfo> value_set_infos;
};

}  // namespace tiercast::engine
