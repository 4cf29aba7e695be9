// Lays out the packet vector: headers, stacks, unions and field lists, and the deparser's order.
#include <algorithm>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

void Compiler::compile() {
  check_version();
  find_architecture();
  compile_errors();
  compile_headers();
  compile_unions();
  compile_stacks("header_stacks", "header_ids", false);
  compile_stacks("header_union_stacks", "header_union_ids", true);
  compile_externs();
  image_.architecture->find_metadata(*this, image_);
  compile_field_lists();
  compile_deparser();
  compile_state();
  compile_calculations();
  compile_actions();
  compile_deparser_code();
  compile_parsers();
  compile_pipelines();
  compile_checksums();
}

void Compiler::check_version() {
  if (!root_.is_object() || root_.find("__meta__") == nullptr) {
    throw Refused{"not bmv2 JSON: it has no `__meta__` (p4c-bm2-ss writes one)", ""};
  }
  const Json& version = root_.at("__meta__").at("version");
  if (version.item(0).integer(0, INT32_MAX) != 2) {
    version.refuse("bmv2 JSON version " + std::to_string(version.item(0).integer(0, INT32_MAX)) +
                   ", expected 2.x");
  }
  for (const char* needed :
       {"header_types", "headers", "parsers", "deparsers", "actions", "pipelines"}) {
    root_.at(needed).items();
  }
}

namespace {

// Architectures that p4c's bmv2 compilers know. Some of them may not be supported here.
constexpr struct {
  std::string_view metadata, name;
} kOthers[] = {{"pna_main_input_metadata", "pna"}};

}  // namespace

void Compiler::find_architecture() {
  std::string valid;
  for (const Architecture* ours : architectures_) {
    valid += (valid.empty() ? "" : ", ") + std::string(ours->name());
  }
  std::string_view found;
  for (const Json& header : root_.at("headers").items()) {
    const std::string name = header.at("name").text();
    for (const Architecture* ours : architectures_) {
      if (name != ours->metadata()) continue;
      image_.architecture = ours;
      return;
    }
    for (const auto& other : kOthers) {
      if (name == other.metadata) found = other.name;
    }
  }
  throw Refused{(found.empty() ? "no architecture's metadata among the headers"
                               : "a program for the architecture `" + std::string(found) + "`") +
                    "; valid architectures: " + valid,
                ""};
}

void Compiler::compile_externs() {
  for (const Json& node : root_.list("extern_instances")) {
    const std::string name = node.at("name").text();
    if (!image_.architecture->extern_instance(*this, node)) {
      node.refuse("extern `" + name + "` of type `" + node.at("type").text() +
                  "`: not supported in " + std::string(image_.architecture->name()));
    }
    if (!instances_.emplace(name, &node).second) {
      node.refuse("two externs are named `" + name + "`");
    }
  }
}

const Json& Compiler::instance(const Json& parameter) const {
  const Json& name = parameter.at("value");
  const auto found = instances_.find(name.text());
  if (found == instances_.end()) name.refuse("unknown extern `" + name.text() + "`");
  return *found->second;
}

const Json& Compiler::attribute(const Json& instance, std::string_view name) {
  for (const Json& given : instance.at("attribute_values").items()) {
    if (given.at("name").text() == name) return given;
  }
  instance.refuse("no attribute `" + std::string(name) + "`");
}

const Json& Compiler::own(const char* list, const char* what) const {
  const Json& all = root_.at(list);
  if (!image_.architecture->parses_twice()) {
    if (all.items().size() != 1) all.refuse(std::string("expected one ") + what);
    return all.item(0);
  }
  const std::string name = std::string(is_egress() ? "egress_" : "ingress_") + what;
  for (const Json& node : all.items()) {
    if (node.at("name").text() == name) return node;
  }
  all.refuse(std::string("no ") + what + " is named `" + name + "`");
}

void Compiler::compile_errors() {
  for (const Json& error : root_.list("errors")) {
    const std::string name = error.item(0).text();
    const auto code = static_cast<std::uint32_t>(error.item(1).integer(0, INT32_MAX));
    if (name == "PacketTooShort") image_.error_packet_too_short = code;
    if (name == "NoMatch") image_.error_no_match = code;
    if (name == "StackOutOfBounds") image_.error_stack_out_of_bounds = code;
    if (name == "HeaderTooShort") image_.error_header_too_short = code;
    if (name == "ParserInvalidArgument") image_.error_parser_invalid_argument = code;
  }
}

void Compiler::compile_headers() {
  std::unordered_map<std::string, const Json*> types;
  for (const Json& type : root_.at("header_types").items()) types[type.at("name").text()] = &type;
  std::vector<const Json*> type_of;
  for (const Json& node : root_.at("headers").items()) {
    Header header;
    header.name = node.at("name").text();
    header.type = node.at("header_type").text();
    header.metadata = node.boolean_or("metadata", false);
    const auto type = types.find(header.type);
    if (type == types.end()) node.refuse("unknown header type `" + header.type + "`");
    type_of.push_back(type->second);
    if (!headers_.emplace(header.name, image_.headers.size()).second) {
      node.refuse("two headers are named `" + header.name + "`");
    }
    image_.headers.push_back(std::move(header));
  }
  // Metadata come first, because a clone loses exactly these.
  for (bool metadata : {true, false}) {
    for (std::uint32_t i = 0; i < image_.headers.size(); ++i) {
      if (image_.headers[i].metadata == metadata) place_header(i, *type_of[i]);
    }
    if (metadata) image_.metadata_end = image_.phv_cells;
  }
}

void Compiler::place_header(std::uint32_t index, const Json& type) {
  Header& header = image_.headers[index];
  header.valid_cell = image_.phv_cells++;
  for (const Json& node : type.at("fields").items()) {
    Field field;
    field.name = node.item(0).text();
    field.cell = image_.phv_cells;
    field.is_varbit = node.item(1).is_string();
    if (node.items().size() > 2) {  // a bool's third item is 0, not false
      const Json& is_signed = node.item(2);
      field.is_signed = is_signed.is_integer() ? is_signed.integer(0, 1) != 0 : is_signed.boolean();
    }
    if (field.is_varbit) {
      if (node.item(1).text() != "*") node.refuse("a field's width is a number or \"*\"");
      if (header.varbit != kNone) node.refuse("a second varbit field in `" + header.type + "`");
      header.varbit = static_cast<std::uint32_t>(header.fields.size());
    } else {
      field.width = static_cast<std::uint32_t>(node.item(1).integer(1, kMaxFieldBits));
      header.fixed_bits += field.width;
      image_.phv_cells += cells_for(field.width);
    }
    header.fields.push_back(std::move(field));
    if (header.fields.back().is_varbit) {
      // The varbit field gets what the fixed fields leave of the header's largest size.
      std::uint32_t fixed = 0;
      for (const Json& other : type.at("fields").items()) {
        if (other.item(1).is_integer()) {
          fixed += static_cast<std::uint32_t>(other.item(1).integer(1, kMaxFieldBits));
        }
      }
      const auto all = static_cast<std::uint32_t>(type.at("max_length").integer(0, 65535)) * 8;
      if (all < fixed) type.refuse("max_length is below the header's fixed part");
      header.fields.back().width = all - fixed;
      image_.phv_cells += 1 + std::max(1u, cells_for(all - fixed));
    }
    if (image_.phv_cells > 1u << 20) type.refuse("the program's headers are too large");
  }
  header.cells = image_.phv_cells - header.valid_cell;
  if (header.metadata) return;
  if (header.fixed_bits % 8 != 0) {
    type.refuse("header type `" + header.type + "` is not a multiple of 8 bits");
  }
  const std::uint32_t varbits = header.varbit == kNone ? 0 : header.fields[header.varbit].width;
  header.max_bytes = (header.fixed_bits + varbits + 7) / 8;
}

namespace {

// Maps JSON ids to positions in a list.
std::map<std::int64_t, std::uint32_t> positions(const std::vector<Json>& list) {
  std::map<std::int64_t, std::uint32_t> result;
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    result[list[i].at("id").integer(INT32_MIN, INT32_MAX)] = i;
  }
  return result;
}

std::uint32_t position(const std::map<std::int64_t, std::uint32_t>& ids, const Json& id) {
  const auto found = ids.find(id.integer(INT32_MIN, INT32_MAX));
  if (found == ids.end()) id.refuse("no such id");
  return found->second;
}

}  // namespace

void Compiler::add_metadata(const Json& node, const std::string& name, const std::string& field,
                            std::uint32_t width) {
  Header header;
  header.name = header.type = name;
  header.metadata = true;
  header.valid_cell = image_.phv_cells;
  header.fields.push_back({field, image_.phv_cells + 1, width, false, false});
  header.cells = 1 + cells_for(width);
  image_.phv_cells += header.cells;
  if (!headers_.emplace(name, image_.headers.size()).second) {
    node.refuse("a header, too, is named `" + name + "`");
  }
  image_.headers.push_back(std::move(header));
}

void Compiler::compile_unions() {
  const auto ids = positions(root_.list("headers"));
  for (const Json& node : root_.list("header_unions")) {
    HeaderUnion header_union;
    header_union.name = node.at("name").text();
    const auto index = static_cast<std::uint32_t>(image_.unions.size());
    for (const Json& id : node.at("header_ids").items()) {
      header_union.headers.push_back(position(ids, id));
      image_.headers[header_union.headers.back()].header_union = index;
    }
    unions_[header_union.name] = index;
    image_.unions.push_back(std::move(header_union));
  }
}

bool Compiler::same_layout(const std::vector<std::uint32_t>& a,
                           const std::vector<std::uint32_t>& b) const {
  const auto equal = [&](std::uint32_t x, std::uint32_t y) {
    const auto& f = image_.headers[x].fields;
    const auto& g = image_.headers[y].fields;
    return std::equal(f.begin(), f.end(), g.begin(), g.end(), [](const Field& p, const Field& q) {
      return p.width == q.width && p.is_varbit == q.is_varbit;
    });
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

void Compiler::compile_stacks(const char* list, const char* members, bool of_unions) {
  const auto ids = positions(root_.list(of_unions ? "header_unions" : "headers"));
  for (const Json& node : root_.list(list)) {
    HeaderStack stack;
    stack.name = node.at("name").text();
    stack.of_unions = of_unions;
    stack.next_cell = image_.phv_cells++;
    for (const Json& id : node.at(members).items()) stack.headers.push_back(position(ids, id));
    if (stack.headers.empty()) node.refuse("header stack `" + stack.name + "` has no element");
    for (std::uint32_t element : stack.headers) {
      const std::uint32_t first = stack.headers[0];
      const bool same =
          of_unions ? same_layout(image_.unions[element].headers, image_.unions[first].headers)
                    : same_layout({element}, {first});
      if (!same) node.refuse("header stack `" + stack.name + "` mixes types");
    }
    if (!stacks_.emplace(stack.name, image_.stacks.size()).second) {
      node.refuse("two header stacks are named `" + stack.name + "`");
    }
    image_.stacks.push_back(std::move(stack));
  }
}

std::optional<Field> Compiler::find_field(std::string_view header, std::string_view name) const {
  const auto found = headers_.find(std::string(header));
  if (found == headers_.end()) return std::nullopt;
  for (const Field& field : image_.headers[found->second].fields) {
    if (field.name == name) return field;
  }
  return std::nullopt;
}

std::optional<Field> Compiler::field_alias(const std::string& name) const {
  for (const Json& alias : root_.list("field_aliases")) {
    if (alias.item(0).text() == name) return field_at(alias.item(1));
  }
  return std::nullopt;
}

void Compiler::compile_field_lists() {
  image_.field_lists.emplace_back();
  for (const Json& node : root_.list("field_lists")) {
    FieldList list;
    for (const Json& element : node.at("elements").items()) {
      const std::string type = element.at("type").text();
      if (type == "field") {
        list.fields.push_back(field_at(element.at("value")));
      } else if (type == "header") {
        for (const Field& f : image_.headers[header_named(element.at("value"))].fields) {
          list.fields.push_back(f);
        }
      } else {
        element.refuse("field list element of type `" + type +
                       "` is not supported (field, header)");
      }
    }
    field_lists_[node.at("id").integer(0, INT32_MAX)] =
        static_cast<std::uint32_t>(image_.field_lists.size());
    image_.field_lists.push_back(std::move(list));
  }
}

void Compiler::compile_deparser() {
  for (const Json& name : own("deparsers", "deparser").at("order").items()) {
    const std::uint32_t header = header_named(name);
    image_.deparser_order.push_back(header);
    image_.max_header_bytes += image_.headers[header].max_bytes;
  }
}

void Compiler::compile_deparser_code() {
  const Json& ours = own("deparsers", "deparser");
  // The other image's code, too, is compiled, so that everything has the same number in both.
  for (const Json& deparser : root_.at("deparsers").items()) {
    const std::uint32_t begin = here();
    for (const Json& node : deparser.list("primitives")) {
      if (node.at("op").text().starts_with("_jump")) node.refuse("a jump in a deparser");
      primitive(node);
    }
    if (&deparser == &ours) image_.deparser_code = {begin, here()};
  }
}

std::uint32_t Compiler::header_named(const Json& name) const {
  const auto found = headers_.find(name.text());
  if (found == headers_.end()) name.refuse("unknown header `" + name.text() + "`");
  return found->second;
}

std::uint32_t Compiler::stack_named(const Json& name, StackOf of) const {
  const auto found = stacks_.find(name.text());
  if (found == stacks_.end()) name.refuse("unknown header stack `" + name.text() + "`");
  const bool of_unions = image_.stacks[found->second].of_unions;
  if (of != StackOf::kAny && of_unions != (of == StackOf::kUnions)) {
    name.refuse("`" + name.text() + "` is a stack of " + (of_unions ? "unions" : "headers") +
                "; valid: of " + (of_unions ? "headers" : "unions"));
  }
  return found->second;
}

std::uint32_t Compiler::union_named(const Json& name) const {
  const auto found = unions_.find(name.text());
  if (found == unions_.end()) name.refuse("unknown header union `" + name.text() + "`");
  return found->second;
}

std::uint32_t Compiler::field_index(std::uint32_t header, const Json& name) const {
  const auto& fields = image_.headers[header].fields;
  const std::string wanted = name.text();
  for (std::uint32_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == wanted) return i;
  }
  name.refuse("header `" + image_.headers[header].name + "` has no field `" + wanted + "`");
}

Field Compiler::field_at(const Json& pair) const {
  const std::uint32_t header = header_named(pair.item(0));
  if (pair.item(1).is_string() && pair.item(1).text() == "$valid$") {
    return {"$valid$", image_.headers[header].valid_cell, 1, false, false};
  }
  return image_.headers[header].fields[field_index(header, pair.item(1))];
}

}  // namespace tiercast::engine
