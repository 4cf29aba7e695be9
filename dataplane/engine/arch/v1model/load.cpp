// The v1model part of loading a program: standard_metadata, and the primitives that decide where a
// packet goes.
#include <memory>
#include <string>

#include "dataplane/engine/arch/v1model/fields.h"
#include "dataplane/engine/arch/v1model/path.h"
#include "dataplane/engine/arch/v1model/v1model.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

namespace {

class V1model final : public Architecture {
 public:
  std::string_view name() const override { return "v1model"; }

  std::string_view metadata() const override { return "standard_metadata"; }

  void find_metadata(const Compiler& compiler, Image& image) const override;
  bool primitive(Compiler& compiler, const Json& node) const override;

  std::unique_ptr<PacketPath> make_path(SwitchCore& core, ProgramState& program) const override {
    return std::make_unique<V1modelPath>(core, program);
  }
};

void V1model::find_metadata(const Compiler& compiler, Image& image) const {
  // bmv2 spreads these fields over three headers; p4c declares them all in standard_metadata and
  // lists aliases.
  const auto find = [&](const char* header, const char* name) {
    if (const auto field = compiler.field_alias(std::string(header) + "." + name)) return *field;
    if (const auto field = compiler.find_field("standard_metadata", name)) return *field;
    return Field{name, 0, kCellBits, false, false};
  };
  auto m = std::make_shared<V1modelFields>();
  m->ingress_port = find("standard_metadata", "ingress_port");
  m->egress_spec = find("standard_metadata", "egress_spec");
  m->egress_port = find("standard_metadata", "egress_port");
  m->instance_type = find("standard_metadata", "instance_type");
  m->packet_length = find("standard_metadata", "packet_length");
  m->checksum_error = find("standard_metadata", "checksum_error");
  m->parser_error = find("standard_metadata", "parser_error");
  m->enq_timestamp = find("queueing_metadata", "enq_timestamp");
  m->enq_qdepth = find("queueing_metadata", "enq_qdepth");
  m->deq_timedelta = find("queueing_metadata", "deq_timedelta");
  m->deq_qdepth = find("queueing_metadata", "deq_qdepth");
  m->ingress_global_timestamp = find("intrinsic_metadata", "ingress_global_timestamp");
  m->egress_global_timestamp = find("intrinsic_metadata", "egress_global_timestamp");
  m->mcast_grp = find("intrinsic_metadata", "mcast_grp");
  m->egress_rid = find("intrinsic_metadata", "egress_rid");
  m->priority = find("intrinsic_metadata", "priority");
  if (m->egress_spec.cell == 0 || m->egress_port.cell == 0) {
    throw Refused{"v1model's standard_metadata without egress_spec and egress_port", ""};
  }
  image.verdict = {m->egress_spec.cell, m->mcast_grp.cell};
  image.checksum_error_cell = m->checksum_error.cell;
  image.read_behind = {m->egress_spec, m->mcast_grp, m->egress_rid, m->instance_type, m->priority};
  image.fields = std::move(m);
}

bool V1model::primitive(Compiler& compiler, const Json& node) const {
  const std::string op = node.at("op").text();
  const Json& p = node.at("parameters");
  if (op == "mark_to_drop") {
    compiler.emit(Op::kMarkToDrop);
  } else if (op == "clone_ingress_pkt_to_egress" || op == "clone_egress_pkt_to_egress") {
    compiler.value(p.item(0));
    compiler.emit(op == "clone_ingress_pkt_to_egress" ? Op::kCloneIngress : Op::kCloneEgress,
                  compiler.field_list(p.item(1)));
  } else if (op == "resubmit" || op == "recirculate") {
    compiler.emit(op == "resubmit" ? Op::kResubmit : Op::kRecirculate,
                  compiler.field_list(p.item(0)));
  } else if (op == "truncate") {
    compiler.value(p.item(0));
    compiler.emit(Op::kTruncate);
  } else if (op == "generate_digest") {
    compiler.emit(Op::kDigest, compiler.digest(p.item(1)));
  } else {
    return false;
  }
  return true;
}

}  // namespace

const Architecture& v1model() {
  static const V1model architecture;
  return architecture;
}

}  // namespace tiercast::engine
