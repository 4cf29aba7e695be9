// Wire format version 1: the 8 bytes at the start of every message, group addresses and ports.
//
// All integers are in network byte order. Parsing is strict and reads nothing beyond the given
// span. If a message is refused, the content of `out` is unspecified. Layout: docs/wire-format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tiercast::wire {

inline constexpr std::uint8_t kWireVersion = 1;
inline constexpr std::uint16_t kDataPort = 5500;      // UDP destination of data and control
inline constexpr std::uint16_t kFeedbackPort = 5501;  // UDP destination of feedback
inline constexpr std::uint16_t kMaxSession = 0x7fff;
inline constexpr std::uint8_t kMaxRank = 7;
inline constexpr std::uint32_t kGroupBase = 0xEFC00000;  // 239.192.0.0/14

enum class Type : std::uint8_t {
  kData = 1,
  kFeedback = 2,  // to the sender
  kControl = 3,   // from the sender, not paced: reports, probes, reflected messages of receivers
};

// Listed in protocols/schemes/schemes.txt: kSim = 1 and so on.
enum class SchemeId : std::uint8_t {
#define TIERCAST_SCHEME(name, number) name = number,
#include "protocols/wire/scheme_numbers.inc"
#undef TIERCAST_SCHEME
  kTrial = 255  // any scheme without a number of its own
};

enum class Error {
  kOk,
  kShort,  // fewer bytes than the headers need
  kVersion,
  kType,         // unknown, or not the expected one
  kScheme,       // unknown, or not the expected one
  kFlags,        // not zero; version 1 defines no flags
  kLength,       // header_length, or where the message ends, does not fit the type and the records
  kSession,      // above kMaxSession
  kRank,         // above kMaxRank
  kRecordCount,  // above 8
  kReserved,     // a reserved field is not zero
  kRecord,       // records are not in ascending order of rank, or a record contradicts itself
};
std::string_view name(Error error);  // "ok", "short", "version", ...

struct CommonHeader {
  static constexpr std::size_t kBytes = 8;
  Type type = Type::kData;
  SchemeId scheme = SchemeId::kSim;
  std::uint16_t header_length = 0;  // from version up to the payload or the end of the records
  std::uint16_t session = 0;
};

// Checks length, version, type, scheme, flags and session. Each type's own parser checks
// header_length.
Error parse_common(std::span<const std::byte> message, CommonHeader& out);
// The same, for a message of this type of this scheme.
Error parse_common(std::span<const std::byte> message, SchemeId scheme, Type type,
                   CommonHeader& out);
// `out` must hold at least kBytes.
void write_common(const CommonHeader& header, std::span<std::byte> out);

// IPv4 group address in host order: 239.192.0.0 + (session << 3 | rank).
constexpr std::uint32_t group_address(std::uint16_t session, std::uint8_t rank) {
  return kGroupBase + (static_cast<std::uint32_t>(session) << 3 | rank);
}

}  // namespace tiercast::wire
