// The headers between the program and its CPU port: P4Runtime's packet metadata in the bits that
// the program reads and writes (P4Info's controller_packet_metadata). Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "p4/config/v1/p4info.pb.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

class PacketIo {
 public:
  // Throws RequestError INVALID_ARGUMENT if a header is not a whole number of bytes.
  explicit PacketIo(const p4::config::v1::P4Info& info);

  // Returns the packet_out header followed by the payload. Throws RequestError INVALID_ARGUMENT (a
  // metadata field is missing, unknown or given twice) or OUT_OF_RANGE (a value does not fit).
  std::string encode(const p4::v1::PacketOut& packet) const;

  // Throws RequestError INVALID_ARGUMENT if the frame is shorter than the packet_in header.
  p4::v1::PacketIn decode(std::span<const std::byte> frame) const;

 private:
  struct Field {
    std::uint32_t id;
    std::string name;
    unsigned width;  // bits
  };
  struct Header {
    std::vector<Field> fields;
    std::size_t bytes = 0;
  };

  Header packet_in_;
  Header packet_out_;
};

}  // namespace tiercast::vswitch
