// The configuration of digests, and lists of digests as messages.
#include "dataplane/switch/p4runtime/entities/digests.h"

#include <fmt/format.h>

#include "dataplane/switch/p4runtime/entities/entity_kinds.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"

namespace tiercast::vswitch {
namespace {

using Shape = ProgramInfo::DigestShape;

std::string bits_of(const Shape& shape, const std::string& value) {
  return shape.int_width == 0 ? value : canonical_int(value, shape.int_width);
}

void fill(const Shape& shape, engine::DigestData::const_iterator& next, p4::v1::P4Data& out) {
  const auto members = [&](auto& to) {
    for (const Shape& member : shape.members) fill(member, next, *to.add_members());
  };
  switch (shape.kind) {
    case Shape::Kind::kBits: out.set_bitstring(bits_of(shape, *next++)); break;
    case Shape::Kind::kBool: out.set_bool_(*next++ != std::string(1, '\0')); break;
    case Shape::Kind::kStruct: members(*out.mutable_struct_()); break;
    case Shape::Kind::kTuple: members(*out.mutable_tuple()); break;
    case Shape::Kind::kHeader:
      out.mutable_header()->set_is_valid(true);
      for (const Shape& member : shape.members)
        out.mutable_header()->add_bitstrings(bits_of(member, *next++));
      break;
  }
}

engine::DigestConfig config_of(const p4::v1::DigestEntry& entry, const std::string& place) {
  const auto& config = entry.config();
  if (config.max_timeout_ns() < 0 || config.max_list_size() < 0 || config.ack_timeout_ns() < 0)
    throw invalid(fmt::format(
        "{}: max_timeout_ns {}, max_list_size {}, ack_timeout_ns {}: valid: "
        "0 or more",
        place, config.max_timeout_ns(), config.max_list_size(), config.ack_timeout_ns()));
  return {static_cast<std::uint32_t>(config.max_list_size()), config.max_timeout_ns(),
          config.ack_timeout_ns()};
}

}  // namespace

p4::v1::DigestList digest_message(const ProgramInfo& info, const engine::DigestList& list,
                                  std::int64_t timestamp_ns) {
  const ProgramInfo::Digest& digest = info.digest(list.name);
  p4::v1::DigestList out;
  out.set_digest_id(digest.id);
  out.set_list_id(list.list_id);
  out.set_timestamp(timestamp_ns);
  for (std::size_t i = 0; i < list.size; ++i) {
    const engine::DigestData data = list.at(i);
    auto next = data.begin();
    fill(digest.shape, next, *out.add_data());
  }
  return out;
}

void write_digest(const Target& target, p4::v1::Update::Type type,
                  const p4::v1::DigestEntry& entry) {
  const ProgramInfo::Digest& digest = target.info.digest(entry.digest_id());
  const std::string place = fmt::format("digest {}", digest.name);
  const bool there = value_of(target.pipeline.digest_config(digest.name)).has_value();
  if (type == p4::v1::Update::INSERT && there)
    throw RequestError(grpc::ALREADY_EXISTS, place + " is configured already");
  if (type != p4::v1::Update::INSERT && !there)
    throw RequestError(grpc::NOT_FOUND, place + " is not configured");
  if (type == p4::v1::Update::DELETE)
    return require(target.pipeline.configure_digest(digest.name, std::nullopt));
  if (!digest.unsupported.empty())
    throw RequestError(grpc::UNIMPLEMENTED, fmt::format("{}: {}", place, digest.unsupported));
  require(target.pipeline.configure_digest(digest.name, config_of(entry, place)));
}

void read_digests(const Target& target, const p4::v1::DigestEntry& request,
                  const EntitySink& sink) {
  if (request.digest_id() != 0) target.info.digest(request.digest_id());
  for (const auto& [id, digest] : target.info.digests()) {
    if (request.digest_id() != 0 && request.digest_id() != id) continue;
    const auto config = value_of(target.pipeline.digest_config(digest.name));
    if (!config && request.digest_id() != 0)
      throw RequestError(grpc::NOT_FOUND, fmt::format("digest {} is not configured", digest.name));
    if (!config) continue;
    p4::v1::Entity out;
    out.mutable_digest_entry()->set_digest_id(id);
    auto& message = *out.mutable_digest_entry()->mutable_config();
    message.set_max_timeout_ns(config->max_timeout_ns);
    message.set_max_list_size(static_cast<std::int32_t>(config->max_list_size));
    message.set_ack_timeout_ns(config->ack_timeout_ns);
    sink(std::move(out));
  }
}

}  // namespace tiercast::vswitch
