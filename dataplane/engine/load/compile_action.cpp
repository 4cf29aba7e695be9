// Compiles actions. Each primitive becomes one statement.
#include <algorithm>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

std::uint32_t named(const std::unordered_map<std::string, std::uint32_t>& names, const Json& node,
                    const char* what) {
  const Json& name = node.at("value");
  const auto found = names.find(name.text());
  if (found == names.end()) name.refuse(std::string("unknown ") + what + " `" + name.text() + "`");
  return found->second;
}

}  // namespace

void Compiler::compile_actions() {
  for (const Json& node : root_.at("actions").items()) {
    Action action;
    action.name = node.at("name").text();
    ActionInfo info{action.name, {}};
    for (const Json& parameter : node.at("runtime_data").items()) {
      const auto width =
          static_cast<std::uint32_t>(parameter.at("bitwidth").integer(1, kMaxFieldBits));
      action.parameters.push_back({action.argument_cells, width});
      action.argument_cells += cells_for(width);
      info.parameters.push_back({parameter.at("name").text(), width});
    }
    action_ = &action;
    action.code.begin = here();
    starts_.clear();
    jumps_.clear();
    for (const Json& p : node.at("primitives").items()) {
      starts_.push_back(here());
      primitive(p);
      image_.statements.push_back({{starts_.back(), here()}, place(p)});
    }
    starts_.push_back(here());
    for (const auto& [at, target] : jumps_) {
      const std::uint32_t index = small(*target);
      if (index >= starts_.size()) target->refuse("a jump outside the action");
      Instruction& jump = image_.code[at];
      jump.a = starts_[index];
      if (jump.a <= at) jump.op = jump.op == Op::kJump ? Op::kLoop : Op::kLoopIfZero;
    }
    action.code.end = here();
    action_ = nullptr;
    if (!actions_.emplace(node.at("id").integer(0, INT32_MAX), image_.actions.size()).second) {
      node.refuse("two actions have this id");
    }
    image_.actions.push_back(std::move(action));
    image_.action_infos.push_back(std::move(info));
  }
}

std::uint32_t Compiler::place(const Json& node) {
  const Json* info = node.find("source_info");
  const Json* text = info == nullptr ? nullptr : info->find("source_fragment");
  image_.places.push_back({node.source(), text == nullptr ? "" : text->text()});
  return static_cast<std::uint32_t>(image_.places.size() - 1);
}

void Compiler::jump(const Json& node, bool conditional) {
  const Json& parameters = node.at("parameters");
  if (conditional) {
    value(parameters.item(0));
    finish(true);
  }
  jumps_.emplace_back(here(), &parameters.item(conditional ? 1 : 0));
  image_.code.push_back({conditional ? Op::kJumpIfZero : Op::kJump, 0, 0, 0});
}

void Compiler::assign(const Json& wrapped_to, const Json& wrapped_from) {
  const Json& to = unwrap(wrapped_to);
  const Json& from = unwrap(wrapped_from);
  if (to.at("type").text() == "field") {
    const Field field = field_at(to.at("value"));
    if (field.is_varbit || field.name == "$valid$") {
      to.refuse("an assignment to `" + field.name + "`");
    }
    const std::string type = from.at("type").text();
    if (field.width <= kCellBits) {  // the frequent cases take one instruction each
      if (type == "field") {
        const Field source = field_at(from.at("value"));
        if (!source.is_varbit && !source.is_signed && source.width <= kCellBits) {
          return emit(Op::kCopyCell, field.cell, source.cell, field.width);
        }
      } else if (type == "hexstr") {
        const Number n = number(from.at("value"));
        const Cell magnitude = n.negative ? Cell{0} - n.magnitude[0] : n.magnitude[0];
        emit(Op::kSetCell, field.cell, static_cast<std::uint32_t>(image_.constants.size()));
        image_.constants.push_back(Word{magnitude & low_mask(field.width)});
        return;
      } else if (type == "runtime_data" && action_ != nullptr) {
        const auto last = static_cast<std::int64_t>(action_->parameters.size()) - 1;
        const auto& parameter =
            action_->parameters[static_cast<std::size_t>(from.at("value").integer(0, last))];
        return emit(Op::kCopyArgument, field.cell, parameter.cell, field.width);
      }
    }
  }
  store_to(to, [&] { value(from); });
}

void Compiler::store_to(const Json& wrapped_lvalue, const std::function<void()>& push_value) {
  const Json& lvalue = unwrap(wrapped_lvalue);
  const std::string type = lvalue.at("type").text();
  const Json& v = lvalue.at("value");
  if (type == "field") {
    const Field field = field_at(v);
    if (field.is_varbit || field.name == "$valid$")
      v.refuse("an assignment to `" + field.name + "`");
    if (field.width > kCellBits) wide_ = true;
    push_value();
    return emit(Op::kStore, field.cell, 0, field.width);
  }
  if (type == "expression" && v.at("op").text() == "access_field") {
    const std::uint32_t header = header_reference(v.at("left"));
    const auto& fields = image_.headers[header].fields;
    const auto index = static_cast<std::uint32_t>(
        v.at("right").integer(0, static_cast<std::int64_t>(fields.size()) - 1));
    if (fields[index].is_varbit) v.refuse("an assignment to a varbit field");
    if (fields[index].width > kCellBits) wide_ = true;
    push_value();
    return emit(Op::kStoreFieldOf, index);
  }
  lvalue.refuse("an assignment to a value of type `" + type + "`");
}

// Splits a log_msg's text, such as "a is {}, \\{not this\\}". Each {} takes the next argument.
void Compiler::log_message(const Json& parameters) {
  const std::string text = parameters.item(0).at("value").text();
  const Json& arguments = parameters.item(1).at("value");
  LogFormat format;
  std::string piece;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '}')) {
      piece += text[++i];
    } else if (text[i] == '{') {
      const std::size_t end = text.find('}', i);
      if (end == text.npos) parameters.refuse("log_msg: a { without its } in \"" + text + "\"");
      format.pieces.push_back(std::move(piece));
      piece.clear();
      i = end;
    } else {
      piece += text[i];
    }
  }
  const std::size_t expected = format.pieces.size();
  format.pieces.push_back(std::move(piece));
  // Without arguments p4c writes {}, an object, instead of a list.
  const std::size_t given = arguments.is_array() ? arguments.items().size() : 0;
  if (expected != given) {
    parameters.refuse("log_msg: \"" + text + "\" takes " + std::to_string(expected) +
                      " arguments, found " + std::to_string(given));
  }
  for (std::size_t i = 0; i < given; ++i) value(arguments.item(i));
  emit(Op::kLog, static_cast<std::uint32_t>(image_.log_formats.size()),
       static_cast<std::uint32_t>(given));
  image_.log_formats.push_back(std::move(format));
}

std::uint32_t Compiler::counter(const Json& parameter) const {
  return named(counters_, parameter, "counter");
}

std::uint32_t Compiler::meter(const Json& parameter) const {
  const std::uint32_t array = named(meters_, parameter, "meter");
  if (!image_.meter_infos[array].table.empty()) parameter.refuse("a direct meter is not executed");
  return array;
}

std::uint32_t Compiler::calculation_named(const Json& name) const {
  const auto found = calculations_.find(name.text());
  if (found == calculations_.end()) name.refuse("unknown calculation `" + name.text() + "`");
  return found->second;
}

std::uint32_t Compiler::field_list(const Json& id) const {
  const std::uint32_t list_id = small(id);
  const auto found = field_lists_.find(list_id);
  if (found == field_lists_.end() && list_id != 0) id.refuse("no field list with this id");
  return found == field_lists_.end() ? 0 : found->second;
}

std::uint32_t Compiler::digest(const Json& id) const {
  const auto found = digests_.find(small(id));
  if (found == digests_.end()) id.refuse("no learn list with this id");
  return found->second;
}

void Compiler::primitive(const Json& node) {
  const std::string op = node.at("op").text();
  const Json& p = node.at("parameters");
  if (op == "_jump" || op == "_jump_if_zero") return jump(node, op == "_jump_if_zero");
  if (op == "assign") {
    assign(p.item(0), p.item(1));
  } else if (op == "assign_VL") {
    const Field to = field_at(unwrap(p.item(0)).at("value"));
    const Field from = field_at(unwrap(p.item(1)).at("value"));
    if (!to.is_varbit || !from.is_varbit || from.width > to.width) {
      node.refuse("assign_VL between fields that are not varbit of the same width");
    }
    emit(Op::kCopyVarbit, to.cell, from.cell, from.width);
  } else if (op == "assign_header") {
    const std::uint32_t to = header_reference(p.item(0)), from = header_reference(p.item(1));
    if (!same_layout({to}, {from})) {
      node.refuse("assign_header between different header types");
    }
    emit(Op::kAssignHeader);
  } else if (op == "assign_union" || op == "assign_header_stack" || op == "assign_union_stack") {
    std::vector<std::uint32_t> to, from;
    const auto members = [&](const Json& operand, std::vector<std::uint32_t>& out) {
      const Json& name = unwrap(operand).at("value");
      std::vector<std::uint32_t> unions;
      if (op == "assign_union") {
        unions.push_back(union_named(name));
      } else {
        const HeaderStack& stack = image_.stacks[stack_named(name)];
        (stack.of_unions ? unions : out) = stack.headers;
      }
      for (std::uint32_t u : unions) {
        out.insert(out.end(), image_.unions[u].headers.begin(), image_.unions[u].headers.end());
      }
    };
    members(p.item(0), to);
    members(p.item(1), from);
    if (!same_layout(to, from)) node.refuse(op + " between different types");
    if (to == from) return;
    // Invalidate all headers first: when a union's member becomes valid, its peers become invalid.
    for (std::uint32_t h : to) {
      emit(Op::kHeader, h);
      emit(Op::kRemoveHeader);
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      emit(Op::kHeader, to[i]);
      emit(Op::kHeader, from[i]);
      emit(Op::kAssignHeader);
    }
    if (op != "assign_union") {
      const std::uint32_t a = stack_named(unwrap(p.item(0)).at("value"));
      const std::uint32_t b = stack_named(unwrap(p.item(1)).at("value"));
      if (image_.stacks[a].headers.size() != image_.stacks[b].headers.size()) {
        node.refuse(op + " between stacks of different sizes");
      }
      emit(Op::kAssignStack, a, b);
    }
  } else if (op == "add_header" || op == "remove_header") {
    header_reference(p.item(0));
    emit(op == "add_header" ? Op::kAddHeader : Op::kRemoveHeader);
  } else if (op == "push" || op == "pop") {
    emit(op == "push" ? Op::kPush : Op::kPop, stack_named(p.item(0).at("value")),
         std::min(small(p.item(1)), 1u << 16));
  } else if (op == "register_read") {
    const std::uint32_t array = named(registers_, p.item(1), "register");
    if (image_.registers[array].width > kCellBits) wide_ = true;
    store_to(p.item(0), [&] {
      value(p.item(2));
      emit(Op::kRegisterRead, array);
    });
  } else if (op == "register_write") {
    const std::uint32_t array = named(registers_, p.item(0), "register");
    if (image_.registers[array].width > kCellBits) wide_ = true;
    value(p.item(1));
    value(p.item(2));
    emit(Op::kRegisterWrite, array);
  } else if (op == "count") {
    const std::uint32_t array = counter(p.item(0));
    value(p.item(1));
    emit(Op::kCount, array);
  } else if (op == "exit") {
    emit(Op::kExit);
  } else if (op == "modify_field_rng_uniform") {
    store_to(p.item(0), [&] {
      value(p.item(1));
      value(p.item(2));
      emit(Op::kRandom);
    });
  } else if (op == "modify_field_with_hash_based_offset") {
    const std::uint32_t hash = calculation_named(p.item(2).at("value"));
    store_to(p.item(0), [&] {
      value(p.item(1));
      value(p.item(3));
      emit(Op::kHash, hash);
    });
  } else if (op == "execute_meter") {
    const std::uint32_t array = meter(p.item(0));
    store_to(p.item(2), [&] {
      value(p.item(1));
      emit(Op::kMeter, array);
    });
  } else if (op == "log_msg") {
    log_message(p);
  } else if (op == "assert" || op == "assume") {
    value(p.item(0));
    emit(Op::kAssert, static_cast<std::uint32_t>(image_.assertions.size()));
    const std::string source = node.source();
    image_.assertions.push_back(op + (source.empty() ? "" : " at " + source) + " failed");
  } else if (!image_.architecture->primitive(*this, node)) {
    node.refuse("primitive `" + op + "` is not supported");
  }
  finish();
}

}  // namespace tiercast::engine
