// Compiles expressions, which bmv2 JSON writes as nested "type value objects", into code for the
// machine's stack.
#include <algorithm>

#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

struct Operator {
  const char* name;
  Op op;
};
constexpr Operator kBinary[] = {{"+", Op::kAdd},
                                {"-", Op::kSubtract},
                                {"*", Op::kMultiply},
                                {"/", Op::kDivide},
                                {"%", Op::kRemainder},
                                {"&", Op::kAnd},
                                {"|", Op::kOr},
                                {"^", Op::kXor},
                                {"<<", Op::kShiftLeft},
                                {">>", Op::kShiftRight},
                                {"<", Op::kLess},
                                {"<=", Op::kLessEqual},
                                {">", Op::kGreater},
                                {">=", Op::kGreaterEqual},
                                {"and", Op::kAnd},
                                {"or", Op::kOr},
                                {"two_comp_mod", Op::kTwoCompMod},
                                {"sat_cast", Op::kSaturate},
                                {"usat_cast", Op::kSaturateUnsigned}};
constexpr Operator kUnary[] = {{"~", Op::kComplement}, {"not", Op::kNot}, {"d2b", Op::kToBool}};

}  // namespace

int stack_effect(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kLog: return -static_cast<int>(instruction.b);
    case Op::kConstant:
    case Op::kWideConstant:
    case Op::kField:
    case Op::kSignedField:
    case Op::kArgument:
    case Op::kLookahead:
    case Op::kLastIndex:
    case Op::kStackSize:
    case Op::kVarbitEqual:
    case Op::kHeader:
    case Op::kCalculation:
    case Op::kLastElement: return 1;
    case Op::kRegisterRead:
    case Op::kMeter:
    case Op::kOnesSum:
    case Op::kComplement:
    case Op::kNegate:
    case Op::kNot:
    case Op::kToBool:
    case Op::kElement:
    case Op::kUnionMember:
    case Op::kFieldOf:
    case Op::kSignedFieldOf:
    case Op::kValid:
    case Op::kUnionValid:
    case Op::kCopyCell:
    case Op::kSetCell:
    case Op::kCopyArgument:
    case Op::kCopyVarbit:
    case Op::kAssignStack:
    case Op::kPush:
    case Op::kPop:
    case Op::kJump:
    case Op::kLoop:
    case Op::kWide:
    case Op::kExit:
    case Op::kExtract:
    case Op::kExtractStack:
    case Op::kExtractUnionStack:
    case Op::kMarkToDrop:
    case Op::kResubmit:
    case Op::kRecirculate:
    case Op::kDigest: return 0;
    case Op::kSelect:
    case Op::kStoreFieldOf:
    case Op::kAssignHeader:
    case Op::kRegisterWrite:
    case Op::kVerify: return -2;
    default: return -1;
  }
}

const Json& Compiler::unwrap(const Json& node) {
  const Json* inner = &node;
  while (inner->at("type").text() == "expression" && inner->at("value").find("op") == nullptr) {
    inner = &inner->at("value");
  }
  return *inner;
}

Compiler::Number Compiler::number(const Json& hex) {
  const std::string given = hex.text();
  std::string_view digits = given;
  Number n;
  if (digits.starts_with('-')) {
    n.negative = true;
    digits.remove_prefix(1);
  }
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  if (digits.empty() || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
    hex.refuse("not a hexadecimal number: \"" + given + "\"");
  }
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  if (digits.size() > kMaxFieldBits / 4) {
    hex.refuse("a number wider than " + std::to_string(kMaxFieldBits) + " bits");
  }
  n.magnitude.resize((digits.size() + 15) / 16);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[digits.size() - 1 - i];
    const Cell digit = static_cast<Cell>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    n.magnitude[i / 16] |= digit << (i % 16 * 4);
    if (digit != 0) {
      n.bits = static_cast<unsigned>(i * 4) + (digit >= 8   ? 4
                                               : digit >= 4 ? 3
                                               : digit >= 2 ? 2
                                                            : 1);
    }
  }
  return n;
}

Bytes Compiler::bytes(const Json& hex) {
  const Number n = number(hex);
  if (n.negative) hex.refuse("a negative value cannot be matched");
  Bytes out;
  for (unsigned i = std::max(1u, (n.bits + 7) / 8); i-- > 0;) {
    out.push_back(static_cast<char>(n.magnitude[i / 8] >> (i % 8 * 8) & 0xff));
  }
  return out;
}

std::uint32_t Compiler::small(const Json& node) const {
  if (node.at("type").text() != "hexstr") node.refuse("expected a constant");
  const Number n = number(node.at("value"));
  if (n.negative || n.bits > 31) node.refuse("expected a constant below 2^31");
  return static_cast<std::uint32_t>(n.magnitude[0]);
}

void Compiler::emit(Op op, std::uint32_t a, std::uint32_t b, std::uint32_t width) {
  pending_.push_back({op, static_cast<std::uint16_t>(width), a, b});
  depth_ = static_cast<unsigned>(static_cast<int>(depth_) + stack_effect(pending_.back()));
  if (depth_ > kStackDepth) {
    root_.refuse("an expression that holds more than " + std::to_string(kStackDepth) +
                 " intermediate results");
  }
}

void Compiler::finish(bool keep) {
  if (wide_) {
    image_.code.push_back(
        {Op::kWide, 0, static_cast<std::uint32_t>(pending_.size()), keep ? 1u : 0u});
  }
  image_.code.insert(image_.code.end(), pending_.begin(), pending_.end());
  pending_.clear();
  depth_ = 0;
  wide_ = false;
}

CodeRange Compiler::condition(const Json& node) {
  const std::uint32_t begin = here();
  value(node);
  finish(true);
  return {begin, here()};
}

void Compiler::constant(const Number& n) {
  if (n.bits <= kCellBits) {
    const Word magnitude = n.magnitude[0];
    emit(Op::kConstant, static_cast<std::uint32_t>(image_.constants.size()));
    image_.constants.push_back(n.negative ? -magnitude : magnitude);
    return;
  }
  wide_ = true;
  const Wide magnitude = Wide::from_cells(n.magnitude);
  emit(Op::kWideConstant, static_cast<std::uint32_t>(image_.wide_constants.size()));
  image_.wide_constants.push_back(n.negative ? -magnitude : magnitude);
}

void Compiler::push(Cell number) {
  emit(Op::kConstant, static_cast<std::uint32_t>(image_.constants.size()));
  image_.constants.push_back(Word{number});
}

void Compiler::push_field(const Field& field, const Json& place) {
  if (field.is_varbit) {
    place.refuse("the value of varbit field `" + field.name + "` in an expression");
  }
  if (field.width > kCellBits) wide_ = true;
  emit(field.is_signed ? Op::kSignedField : Op::kField, field.cell, 0, field.width);
}

void Compiler::value(const Json& wrapped) {
  const Json& node = unwrap(wrapped);
  const std::string type = node.at("type").text();
  const Json& v = node.at("value");
  if (type == "expression") return operation(v);
  if (type == "field") return push_field(field_at(v), v);
  if (type == "hexstr") return constant(number(v));
  if (type == "bool") return constant({false, {v.boolean() ? 1u : 0u}, 1});
  if (type == "runtime_data" || type == "local") {
    if (action_ == nullptr) node.refuse("`" + type + "` outside an action");
    const auto last = static_cast<std::int64_t>(action_->parameters.size()) - 1;
    const auto& parameter = action_->parameters[static_cast<std::size_t>(v.integer(0, last))];
    if (parameter.width > kCellBits) wide_ = true;
    return emit(Op::kArgument, parameter.cell, 0, parameter.width);
  }
  if (type == "header" || type == "header_union") {
    reference(node);
    return;
  }
  if (type == "stack_field") {
    const std::uint32_t stack = stack_named(v.item(0), StackOf::kHeaders);
    const std::uint32_t header = image_.stacks[stack].headers[0];
    const std::uint32_t index = field_index(header, v.item(1));
    const Field& field = image_.headers[header].fields[index];
    if (field.is_varbit) v.refuse("a varbit field in an expression");
    if (field.width > kCellBits) wide_ = true;
    emit(Op::kLastElement, stack);
    return emit(field.is_signed ? Op::kSignedFieldOf : Op::kFieldOf, index);
  }
  if (type == "union_stack_field") {
    const std::uint32_t stack = stack_named(v.item(0), StackOf::kUnions);
    const HeaderUnion& first = image_.unions[image_.stacks[stack].headers[0]];
    for (std::uint32_t m = 0; m < first.headers.size(); ++m) {
      const std::string& name = image_.headers[first.headers[m]].name;
      if (!name.ends_with("." + v.item(1).text())) continue;
      const std::uint32_t index = field_index(first.headers[m], v.item(2));
      if (image_.headers[first.headers[m]].fields[index].width > kCellBits) wide_ = true;
      emit(Op::kLastElement, stack);
      emit(Op::kUnionMember, m);
      return emit(Op::kFieldOf, index);
    }
    v.refuse("unknown union member `" + v.item(1).text() + "`");
  }
  if (type == "lookahead") {
    const auto offset = static_cast<std::uint32_t>(v.item(0).integer(0, 1 << 20));
    const auto width = static_cast<std::uint32_t>(v.item(1).integer(1, kMaxFieldBits));
    if (width > kCellBits) wide_ = true;
    return emit(Op::kLookahead, offset, 0, width);
  }
  if (type == "register") {
    const auto found = registers_.find(v.item(0).text());
    if (found == registers_.end()) v.refuse("unknown register `" + v.item(0).text() + "`");
    if (image_.registers[found->second].width > kCellBits) wide_ = true;
    value(v.item(1));
    return emit(Op::kRegisterRead, found->second);
  }
  node.refuse("a value of type `" + type + "` is not supported");
}

void Compiler::operation(const Json& node) {
  const std::string op = node.at("op").text();
  if (op == "==" || op == "!=") return equality(node.at("left"), node.at("right"), op == "==");
  if (op == "?") {
    value(node.at("cond"));
    value(node.at("left"));
    value(node.at("right"));
    return emit(Op::kSelect);
  }
  if (op == "-" && node.find("left") == nullptr) {
    value(node.at("right"));
    return emit(Op::kNegate);
  }
  for (const Operator& o : kBinary) {
    if (op != o.name) continue;
    value(node.at("left"));
    const Json& right = node.at("right");
    value(right);
    if (o.op == Op::kTwoCompMod || o.op == Op::kSaturate || o.op == Op::kSaturateUnsigned) {
      const std::uint32_t bits = small(unwrap(right));
      if (bits == 0 || bits > kMaxFieldBits) right.refuse("a width of 1 to 2048 bits expected");
      if (bits > kCellBits) wide_ = true;
    }
    return emit(o.op);
  }
  for (const Operator& o : kUnary) {
    if (op != o.name) continue;
    value(node.at("right"));
    return emit(o.op);
  }
  if (op == "b2d") return value(node.at("right"));
  if (op == "valid") {
    header_reference(node.at("right"));
    return emit(Op::kValid);
  }
  if (op == "valid_union") {
    if (!reference(node.at("right")).is_union) node.refuse("`valid_union` of a header");
    return emit(Op::kUnionValid);
  }
  if (op == "last_stack_index") {
    return emit(Op::kLastIndex, stack_named(unwrap(node.at("right")).at("value")));
  }
  if (op == "size_stack") {
    const Json& name = unwrap(node.at("right")).at("value");
    return emit(Op::kStackSize, stack_named(name, StackOf::kHeaders));
  }
  if (op == "access_field") {
    const std::uint32_t header = header_reference(node.at("left"));
    const auto& fields = image_.headers[header].fields;
    const auto index = static_cast<std::uint32_t>(
        node.at("right").integer(0, static_cast<std::int64_t>(fields.size()) - 1));
    if (fields[index].is_varbit) node.refuse("a varbit field in an expression");
    if (fields[index].width > kCellBits) wide_ = true;
    return emit(fields[index].is_signed ? Op::kSignedFieldOf : Op::kFieldOf, index);
  }
  node.refuse("operator `" + op + "` is not supported");
}

void Compiler::equality(const Json& wrapped_left, const Json& wrapped_right, bool equal) {
  const Json& left = unwrap(wrapped_left);
  const Json& right = unwrap(wrapped_right);
  const std::string type = left.at("type").text();
  const auto references = [&](std::uint32_t a, std::uint32_t b) {
    emit(Op::kHeader, a);
    emit(Op::kHeader, b);
    emit(Op::kHeadersEqual);
  };
  // Things with members are equal if all their members are.
  const auto all = [&](const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
    if (a.size() != b.size() || a.empty()) left.refuse("a comparison of different types");
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (image_.headers[a[i]].type != image_.headers[b[i]].type) {
        left.refuse("a comparison of different types");
      }
      references(a[i], b[i]);
      if (i > 0) emit(Op::kAnd);
    }
  };
  const auto stack_headers = [&](const HeaderStack& stack) {
    if (!stack.of_unions) return stack.headers;
    std::vector<std::uint32_t> flat;
    for (std::uint32_t u : stack.headers) {
      flat.insert(flat.end(), image_.unions[u].headers.begin(), image_.unions[u].headers.end());
    }
    return flat;
  };
  const bool op_gives_header =
      type == "expression" && (left.at("value").at("op").text() == "dereference_header_stack" ||
                               left.at("value").at("op").text() == "access_union_header");
  if (type == "header" || op_gives_header) {
    const std::uint32_t a = header_reference(left), b = header_reference(right);
    if (image_.headers[a].type != image_.headers[b].type) {
      left.refuse("a comparison of different header types");
    }
    emit(Op::kHeadersEqual);
  } else if (type == "header_union") {
    all(image_.unions[union_named(left.at("value"))].headers,
        image_.unions[union_named(right.at("value"))].headers);
  } else if (type == "header_stack" || type == "header_union_stack") {
    all(stack_headers(image_.stacks[stack_named(left.at("value"))]),
        stack_headers(image_.stacks[stack_named(right.at("value"))]));
  } else if (type == "field" && field_at(left.at("value")).is_varbit) {
    if (right.at("type").text() != "field" || !field_at(right.at("value")).is_varbit) {
      right.refuse("a varbit field is only compared with a varbit field");
    }
    emit(Op::kVarbitEqual, field_at(left.at("value")).cell, field_at(right.at("value")).cell);
  } else {
    value(left);
    value(right);
    return emit(equal ? Op::kEqual : Op::kNotEqual);
  }
  if (!equal) emit(Op::kNot);
}

Compiler::Reference Compiler::reference(const Json& wrapped) {
  const Json& node = unwrap(wrapped);
  const std::string type = node.at("type").text();
  const Json& v = node.at("value");
  if (type == "header") {
    const std::uint32_t header = header_named(v);
    emit(Op::kHeader, header);
    return {header, false};
  }
  if (type == "header_union") {
    const std::uint32_t header_union = union_named(v);
    emit(Op::kHeader, header_union);
    return {header_union, true};
  }
  if (type == "stack_field" && v.item(1).text() == "last") {  // p4c's form of stack.last
    const std::uint32_t stack = stack_named(v.item(0));
    emit(Op::kLastElement, stack);
    return {image_.stacks[stack].headers[0], image_.stacks[stack].of_unions};
  }
  if (type != "expression") node.refuse("expected a header, found a value of type `" + type + "`");
  const std::string op = v.at("op").text();
  if (op == "dereference_header_stack" || op == "dereference_union_stack") {
    const std::uint32_t stack = stack_named(unwrap(v.at("left")).at("value"));
    value(v.at("right"));
    emit(Op::kElement, stack);
    return {image_.stacks[stack].headers[0], image_.stacks[stack].of_unions};
  }
  if (op == "access_union_header") {
    const Reference from = reference(v.at("left"));
    if (!from.is_union) v.refuse("`access_union_header` of a header");
    const auto& members = image_.unions[from.index].headers;
    const auto member = static_cast<std::uint32_t>(
        v.at("right").integer(0, static_cast<std::int64_t>(members.size()) - 1));
    emit(Op::kUnionMember, member);
    return {members[member], false};
  }
  v.refuse("expected a header, found operator `" + op + "`");
}

std::uint32_t Compiler::header_reference(const Json& node) {
  const Reference r = reference(node);
  if (r.is_union) node.refuse("expected a header, found a header union");
  return r.index;
}

}  // namespace tiercast::engine
