#include "protocols/wire/wire.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

std::string_view name(Error error) {
  switch (error) {
    case Error::kOk: return "ok";
    case Error::kShort: return "short";
    case Error::kVersion: return "version";
    case Error::kType: return "type";
    case Error::kScheme: return "scheme";
    case Error::kFlags: return "flags";
    case Error::kLength: return "length";
    case Error::kSession: return "session";
    case Error::kRank: return "rank";
    case Error::kRecordCount: return "record_count";
    case Error::kReserved: return "reserved";
    case Error::kRecord: return "record";
  }
  return "unknown";
}

namespace {

constexpr bool is_known(std::uint8_t scheme) {
  switch (static_cast<SchemeId>(scheme)) {
#define TIERCAST_SCHEME(name, number) case SchemeId::name:
#include "protocols/wire/scheme_numbers.inc"
#undef TIERCAST_SCHEME
    case SchemeId::kTrial: return true;
  }
  return false;
}

}  // namespace

Error parse_common(std::span<const std::byte> message, CommonHeader& out) {
  if (message.size() < CommonHeader::kBytes) return Error::kShort;
  if (get8(message, 0) != kWireVersion) return Error::kVersion;
  const std::uint8_t type = get8(message, 1);
  if (type < 1 || type > 3) return Error::kType;
  const std::uint8_t scheme = get8(message, 2);
  if (!is_known(scheme)) return Error::kScheme;
  if (get8(message, 3) != 0) return Error::kFlags;
  const std::uint16_t header_length = get16(message, 4);
  const std::uint16_t session = get16(message, 6);
  if (session > kMaxSession) return Error::kSession;
  out.type = static_cast<Type>(type);
  out.scheme = static_cast<SchemeId>(scheme);
  out.header_length = header_length;
  out.session = session;
  return Error::kOk;
}

Error parse_common(std::span<const std::byte> message, SchemeId scheme, Type type,
                   CommonHeader& out) {
  const Error error = parse_common(message, out);
  if (error != Error::kOk) return error;
  if (out.type != type) return Error::kType;
  return out.scheme == scheme ? Error::kOk : Error::kScheme;
}

void write_common(const CommonHeader& header, std::span<std::byte> out) {
  put8(out, 0, kWireVersion);
  put8(out, 1, static_cast<std::uint8_t>(header.type));
  put8(out, 2, static_cast<std::uint8_t>(header.scheme));
  put8(out, 3, 0);
  put16(out, 4, header.header_length);
  put16(out, 6, header.session);
}

}  // namespace tiercast::wire
