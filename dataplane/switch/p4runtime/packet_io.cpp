#include "dataplane/switch/p4runtime/packet_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dataplane/switch/p4runtime/translate/bytestring.h"
#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

constexpr int kMaxFieldBits = 2048;  // as much as a header's field may have

// Bit 0 is the most significant bit of the first byte.
bool bit_at(std::string_view bytes, std::size_t bit) {
  return static_cast<unsigned char>(bytes[bit / 8]) >> (7 - bit % 8) & 1;
}

void set_bit(std::string& bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] | 1 << (7 - bit % 8));
}

// Writes the low `width` bits of `value`, which is right-aligned and big endian, to bits [offset,
// offset + width).
void put_bits(std::string& out, std::size_t offset, unsigned width, std::string_view value) {
  const std::size_t bits = value.size() * 8;
  for (std::size_t i = 0; i < std::min<std::size_t>(width, bits); ++i)
    if (bit_at(value, bits - 1 - i)) set_bit(out, offset + width - 1 - i);
}

std::string get_bits(std::string_view in, std::size_t offset, unsigned width) {
  std::string value((width + 7) / 8, '\0');
  for (std::size_t i = 0; i < width; ++i)
    if (bit_at(in, offset + width - 1 - i)) set_bit(value, value.size() * 8 - 1 - i);
  return value;
}

}  // namespace

PacketIo::PacketIo(const p4::config::v1::P4Info& info) {
  for (const auto& metadata : info.controller_packet_metadata()) {
    const std::string& name = metadata.preamble().name();
    Header& header = name == "packet_in" ? packet_in_ : packet_out_;
    if (name != "packet_in" && name != "packet_out") continue;
    if (!header.fields.empty())
      throw RequestError(grpc::INVALID_ARGUMENT,
                         fmt::format("controller header {} is given twice", name));
    std::size_t bits = 0;
    for (const auto& field : metadata.metadata()) {
      if (field.bitwidth() <= 0 || field.bitwidth() > kMaxFieldBits)
        throw RequestError(grpc::INVALID_ARGUMENT,
                           fmt::format("controller header {}: field {} has bitwidth {}; valid: 1 "
                                       "to {}",
                                       name, field.name(), field.bitwidth(), kMaxFieldBits));
      header.fields.push_back({field.id(), field.name(), static_cast<unsigned>(field.bitwidth())});
      bits += static_cast<std::size_t>(field.bitwidth());
    }
    if (bits % 8 != 0)
      throw RequestError(
          grpc::INVALID_ARGUMENT,
          fmt::format("controller header {}: {} bits are not whole bytes", name, bits));
    header.bytes = bits / 8;
  }
}

std::string PacketIo::encode(const p4::v1::PacketOut& packet) const {
  std::string frame(packet_out_.bytes, '\0');
  std::size_t offset = 0;
  for (const Field& field : packet_out_.fields) {
    const auto matches = [&](const p4::v1::PacketMetadata& item) {
      return item.metadata_id() == field.id;
    };
    const auto& given = packet.metadata();
    const auto found = std::find_if(given.begin(), given.end(), matches);
    if (std::count_if(given.begin(), given.end(), matches) != 1)
      throw RequestError(grpc::INVALID_ARGUMENT,
                         fmt::format("packet_out: metadata {} ({}) is {}", field.id, field.name,
                                     found == given.end() ? "missing" : "given twice"));
    const std::string place = fmt::format("packet_out: metadata {} ({})", field.id, field.name);
    put_bits(frame, offset, field.width, canonical(found->value(), field.width, place));
    offset += field.width;
  }
  if (static_cast<std::size_t>(packet.metadata_size()) != packet_out_.fields.size()) {
    std::vector<std::string> valid;
    for (const Field& field : packet_out_.fields)
      valid.push_back(fmt::format("{} ({})", field.id, field.name));
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("packet_out: {} metadata fields; the program has: {}",
                                   packet.metadata_size(), fmt::join(valid, ", ")));
  }
  return frame + packet.payload();
}

p4::v1::PacketIn PacketIo::decode(std::span<const std::byte> frame) const {
  if (frame.size() < packet_in_.bytes)
    throw RequestError(grpc::INVALID_ARGUMENT, fmt::format("packet_in: {} bytes; its header has {}",
                                                           frame.size(), packet_in_.bytes));
  const std::string_view bytes(reinterpret_cast<const char*>(frame.data()), frame.size());
  p4::v1::PacketIn packet;
  std::size_t offset = 0;
  for (const Field& field : packet_in_.fields) {
    p4::v1::PacketMetadata& metadata = *packet.add_metadata();
    metadata.set_metadata_id(field.id);
    metadata.set_value(canonical(get_bits(bytes, offset, field.width), field.width, field.name));
    offset += field.width;
  }
  packet.set_payload(bytes.data() + packet_in_.bytes, bytes.size() - packet_in_.bytes);
  return packet;
}

}  // namespace tiercast::vswitch
