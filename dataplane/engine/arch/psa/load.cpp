// The PSA part of loading a program: its metadata and its extern objects.
#include <memory>
#include <optional>
#include <string>

#include "dataplane/engine/arch/psa/fields.h"
#include "dataplane/engine/arch/psa/path.h"
#include "dataplane/engine/arch/psa/psa.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

class Psa final : public Architecture {
 public:
  std::string_view name() const override { return "psa"; }

  std::string_view metadata() const override { return "psa_ingress_input_metadata"; }

  bool parses_twice() const override { return true; }

  void find_metadata(const Compiler& compiler, Image& image) const override;
  bool extern_instance(Compiler& compiler, const Json& node) const override;
  bool primitive(Compiler& compiler, const Json& node) const override;

  std::unique_ptr<PacketPath> make_path(SwitchCore& core, ProgramState& program) const override {
    return std::make_unique<PsaPath>(core, program);
  }
};

void Psa::find_metadata(const Compiler& compiler, Image& image) const {
  const char* header = nullptr;
  const auto find = [&](const char* name) {
    if (const auto field = compiler.find_field(header, name)) return *field;
    return Field{name, 0, kCellBits, false, false};
  };
  auto m = std::make_shared<PsaFields>();
  header = "psa_ingress_parser_input_metadata";
  m->ingress_parser = {find("ingress_port"), find("packet_path")};
  header = "psa_ingress_input_metadata";
  m->ingress = {find("ingress_port"), find("packet_path"), find("ingress_timestamp"),
                find("parser_error")};
  header = "psa_ingress_output_metadata";
  m->ingress_output = {
      find("class_of_service"), find("clone"),           find("clone_session_id"), find("drop"),
      find("resubmit"),         find("multicast_group"), find("egress_port")};
  header = "psa_egress_parser_input_metadata";
  m->egress_parser = {find("egress_port"), find("packet_path")};
  header = "psa_egress_input_metadata";
  m->egress = {find("class_of_service"), find("egress_port"),      find("packet_path"),
               find("instance"),         find("egress_timestamp"), find("parser_error")};
  header = "psa_egress_output_metadata";
  m->egress_output = {find("clone"), find("clone_session_id"), find("drop")};
  header = "psa_egress_deparser_input_metadata";
  m->egress_deparser = {find("egress_port")};

  if (m->ingress_output.drop.cell == 0 || m->ingress_output.egress_port.cell == 0 ||
      m->egress_output.drop.cell == 0) {
    throw Refused{"PSA's output metadata without drop and egress_port", ""};
  }
  if (compiler.is_egress()) {
    image.verdict.drop = m->egress_output.drop.cell;
    image.read_behind = {m->egress_output.clone, m->egress_output.clone_session_id,
                         m->egress_output.drop};
  } else {
    const auto& out = m->ingress_output;
    image.verdict.drop = out.drop.cell;
    image.read_behind = {out.class_of_service, out.clone,           out.clone_session_id, out.drop,
                         out.resubmit,         out.multicast_group, out.egress_port};
  }
  // PSA_MeterColor_t is RED, GREEN, YELLOW.
  image.meter_colours = {1, 2, 0};
  image.fields = std::move(m);
}

bool Psa::extern_instance(Compiler& compiler, const Json& node) const {
  const std::string type = node.at("type").text();
  // The JSON lists counters among its counter_arrays as well.
  if (type == "Counter" || type == "DirectCounter" || type == "Hash") return true;
  if (type == "InternetChecksum") {
    // Its state belongs to the packet, and starts clear with each parser or deparser.
    compiler.add_metadata(node, node.at("name").text(), "sum", 16);
    return true;
  }
  if (type != "Meter") return false;
  MeterArray meter;
  meter.name = node.at("name").text();
  meter.size = compiler.small(Compiler::attribute(node, "n_meters"));
  const Json& unit = Compiler::attribute(node, "type").at("value");
  if (unit.text() != "packets" && unit.text() != "bytes") {
    unit.refuse("a meter of type `" + unit.text() + "` (packets, bytes)");
  }
  meter.bytes = unit.text() == "bytes";
  compiler.add_meter(node, std::move(meter));
  return true;
}

// InternetChecksum's methods; p: the object, and then the method's own parameters.
bool checksum_primitive(Compiler& compiler, const std::string& method, const Json& p) {
  const Json& name = p.item(0).at("value");
  const std::optional<Field> sum = compiler.find_field(name.text(), "sum");
  if (!sum) name.refuse("unknown InternetChecksum `" + name.text() + "`");
  const auto push_sum = [&] { compiler.emit(Op::kField, sum->cell, 0, sum->width); };
  const auto push_result = [&] {
    push_sum();
    compiler.push(0xffff);
    compiler.emit(Op::kXor);
  };
  const auto store = [&] { compiler.emit(Op::kStore, sum->cell, 0, sum->width); };
  if (method == "clear") {
    compiler.push(0);
    store();
  } else if (method == "add" || method == "subtract") {
    const std::uint32_t words =
        compiler.field_list_calculation(name.text(), Algorithm::kCsum16, p.item(1), true);
    push_sum();
    compiler.emit(Op::kOnesSum, words, method == "subtract" ? 1 : 0);
    store();
  } else if (method == "set_state") {
    compiler.value(p.item(1));
    store();
  } else if (method == "get_state") {
    compiler.store_to(p.item(1), push_sum);
  } else if (method == "get") {
    compiler.store_to(p.item(1), push_result);
  } else if (method == "get_verify") {
    compiler.store_to(p.item(1), [&] {
      push_result();
      compiler.value(p.item(2));
      compiler.emit(Op::kEqual);
    });
  } else {
    return false;
  }
  return true;
}

bool Psa::primitive(Compiler& compiler, const Json& node) const {
  const std::string op = node.at("op").text();
  const auto hash = [&](const Json& fields) {
    const Json& object = compiler.instance(node.at("parameters").item(0));
    const Json& algorithm = Compiler::attribute(object, "algo").at("value");
    return compiler.field_list_calculation(object.at("name").text(), Compiler::algorithm(algorithm),
                                           fields, false);
  };
  constexpr std::string_view kChecksum = "_InternetChecksum_";
  if (op.starts_with(kChecksum)) {
    return checksum_primitive(compiler, op.substr(kChecksum.size()), node.at("parameters"));
  }
  const Json& p = node.at("parameters");
  if (op == "_Counter_count") {
    const std::uint32_t counter = compiler.counter(p.item(0));
    compiler.value(p.item(1));
    compiler.emit(Op::kCount, counter);
  } else if (op == "_Meter_execute") {
    const std::uint32_t meter = compiler.meter(p.item(0));
    compiler.store_to(p.item(2), [&] {
      compiler.value(p.item(1));
      compiler.emit(Op::kMeter, meter);
    });
  } else if (op == "_Hash_get_hash") {
    const std::uint32_t calculation = hash(p.item(2));
    compiler.store_to(p.item(1), [&] { compiler.emit(Op::kCalculation, calculation); });
  } else if (op == "_Hash_get_hash_mod") {
    const std::uint32_t calculation = hash(p.item(3));
    compiler.store_to(p.item(1), [&] {
      compiler.value(p.item(2));
      compiler.value(p.item(4));
      compiler.emit(Op::kHash, calculation);
    });
  } else if (op == "generate_digest") {
    compiler.emit(Op::kDigest, compiler.digest(p.item(p.items().size() - 1)));
  } else {
    return false;
  }
  return true;
}

}  // namespace

const Architecture& psa() {
  static const Psa architecture;
  return architecture;
}

}  // namespace tiercast::engine
