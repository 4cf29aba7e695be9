// Compiles calculations (hashes and checksums), and where checksums are verified and updated.
#include <algorithm>

#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

struct AlgorithmName {
  const char* name;
  Algorithm algorithm;
};
constexpr AlgorithmName kAlgorithms[] = {{"csum16", Algorithm::kCsum16},
                                         {"xor16", Algorithm::kXor16},
                                         {"crc16", Algorithm::kCrc16},
                                         {"crc32", Algorithm::kCrc32},
                                         {"crc16_custom", Algorithm::kCrc16Custom},
                                         {"crc32_custom", Algorithm::kCrc32Custom},
                                         {"crcCCITT", Algorithm::kCrcCcitt},
                                         {"random", Algorithm::kRandom},
                                         {"identity", Algorithm::kIdentity}};

}  // namespace

Algorithm Compiler::algorithm(const Json& name) {
  const auto* known = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                   [&](const auto& a) { return name.text() == a.name; });
  if (known == std::end(kAlgorithms)) {
    name.refuse("hash algorithm `" + name.text() +
                "` is not supported (csum16, xor16, crc16, crc16_custom, crc32, crc32_custom, "
                "crcCCITT, identity, random)");
  }
  return known->algorithm;
}

CalculationInput Compiler::field_input(const Field& field, std::uint32_t header) const {
  CalculationInput input;
  input.kind = field.is_varbit ? CalculationInput::Kind::kVarbit : CalculationInput::Kind::kField;
  input.cell = field.cell;
  input.width = field.width;
  if (!image_.headers[header].metadata) input.valid_cell = image_.headers[header].valid_cell;
  return input;
}

void Compiler::compile_calculations() {
  for (const Json& node : root_.list("calculations")) {
    Calculation c = calculation(node.at("algo"), node.at("input"));
    c.name = node.at("name").text();
    const std::string name = c.name;
    calculations_[name] = add_calculation(std::move(c));
  }
}

std::uint32_t Compiler::add_calculation(Calculation c) {
  image_.max_calculation_bytes =
      std::max(image_.max_calculation_bytes, c.max_bytes + (c.with_payload ? 65536 : 0));
  image_.calculations.push_back(std::move(c));
  return static_cast<std::uint32_t>(image_.calculations.size() - 1);
}

Calculation Compiler::calculation(const Json& algorithm_name, const Json& inputs) {
  Calculation c;
  c.algorithm = algorithm(algorithm_name);
  for (const Json& input : inputs.items()) {
    const std::string type = input.at("type").text();
    if (type == "field") {
      const Json& v = input.at("value");
      c.inputs.push_back(field_input(field_at(v), header_named(v.item(0))));
    } else if (type == "header") {
      const std::uint32_t header = header_named(input.at("value"));
      for (const Field& field : image_.headers[header].fields) {
        c.inputs.push_back(field_input(field, header));
      }
    } else if (type == "hexstr") {
      const Number n = number(input.at("value"));
      CalculationInput constant;
      constant.kind = CalculationInput::Kind::kConstant;
      constant.width = static_cast<std::uint32_t>(input.at("bitwidth").integer(1, kMaxFieldBits));
      constant.cell = static_cast<std::uint32_t>(image_.cell_constants.size());
      for (std::uint32_t i = 0; i < cells_for(constant.width); ++i) {
        const Cell cell = i < n.magnitude.size() ? n.magnitude[i] : 0;
        image_.cell_constants.push_back(cell & low_mask(constant.width - i * kCellBits));
      }
      c.inputs.push_back(constant);
    } else if (type == "payload") {  // comes last, as in bmv2, wherever it is named
      c.with_payload = true;
    } else {
      input.refuse("a calculation's input of type `" + type + "` is not supported");
    }
  }
  std::uint32_t bits = 0;
  for (const CalculationInput& input : c.inputs) bits += input.width;
  c.max_bytes = (bits + 7) / 8 + 8;
  return c;
}

std::uint32_t Compiler::field_list_calculation(const std::string& name, Algorithm algorithm,
                                               const Json& parameter, bool of_words) {
  if (parameter.at("type").text() != "field_list") parameter.refuse("expected a field list");
  const Json& list = parameter.at("value");
  const std::size_t count = list.is_array() ? list.items().size() : 1;  // p4c: one alone is no list
  Calculation c;
  c.name = name;
  c.algorithm = algorithm;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Json& item = list.is_array() ? list.item(i) : list;
    if (item.at("type").text() != "field") {
      item.refuse("a value of type `" + item.at("type").text() + "` in an extern's list of fields");
    }
    const Field field = field_at(item.at("value"));
    if (field.is_varbit) item.refuse("a varbit field in an extern's list of fields");
    CalculationInput input;
    input.kind = CalculationInput::Kind::kField;
    input.cell = field.cell;
    input.width = field.width;
    c.inputs.push_back(input);
    bits += field.width;
  }
  if (of_words && bits % 16 != 0) {
    parameter.refuse("a checksum over " + std::to_string(bits) + " bits: no whole 16-bit words");
  }
  if (bits % 8 != 0) {
    CalculationInput zeros;
    zeros.kind = CalculationInput::Kind::kConstant;
    zeros.width = 8 - bits % 8;
    zeros.cell = static_cast<std::uint32_t>(image_.cell_constants.size());
    image_.cell_constants.push_back(0);
    c.inputs.insert(c.inputs.begin(), zeros);
  }
  c.max_bytes = (bits + 7) / 8 + 8;
  return add_calculation(std::move(c));
}

void Compiler::compile_checksums() {
  for (const Json& node : root_.list("checksums")) {
    Checksum checksum;
    if (node.at("type").text() != "generic") {
      node.refuse("checksum of type `" + node.at("type").text() + "` is not supported");
    }
    const Field target = field_at(node.at("target"));
    if (target.is_varbit || target.width > kCellBits) {
      node.refuse("a checksum in a field of more than 64 bits");
    }
    checksum.cell = target.cell;
    checksum.width = target.width;
    checksum.calculation = calculation_named(node.at("calculation"));
    checksum.update = node.boolean_or("update", true);
    checksum.verify = node.boolean_or("verify", true);
    if (const Json* wanted = node.find("if_cond")) checksum.condition = condition(*wanted);
    image_.checksums.push_back(checksum);
  }
}

}  // namespace tiercast::engine
