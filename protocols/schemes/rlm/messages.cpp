#include "protocols/schemes/rlm/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, RlmData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kRlm, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < RlmData::kBytes) return Error::kShort;
  if (common.header_length != RlmData::kBytes) return Error::kLength;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  if (get8(message, 9) != 0 || get16(message, 10) != 0) return Error::kReserved;
  out.seq = get32(message, 12);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, Type type, RlmAnnouncement& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kRlm, type, common);
  if (error != Error::kOk) return error;
  if (message.size() < RlmAnnouncement::kBytes) return Error::kShort;
  if (common.header_length != RlmAnnouncement::kBytes || message.size() > RlmAnnouncement::kBytes) {
    return Error::kLength;
  }
  out.type = type;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  if (get8(message, 9) != 0 || get16(message, 10) != 0) return Error::kReserved;
  out.source = get32(message, 12);
  return Error::kOk;
}

std::size_t write(const RlmData& data, std::span<std::byte> out) {
  if (out.size() < RlmData::kBytes || data.rank > kMaxRank || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kRlm, RlmData::kBytes, data.session}, out);
  put8(out, 8, data.rank);
  put8(out, 9, 0);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  return RlmData::kBytes;
}

std::size_t write(const RlmAnnouncement& announcement, std::span<std::byte> out) {
  if (out.size() < RlmAnnouncement::kBytes || announcement.rank > kMaxRank ||
      announcement.session > kMaxSession || announcement.type == Type::kData) {
    return 0;
  }
  write_common({announcement.type, SchemeId::kRlm, RlmAnnouncement::kBytes, announcement.session},
               out);
  put8(out, 8, announcement.rank);
  put8(out, 9, 0);
  put16(out, 10, 0);
  put32(out, 12, announcement.source);
  return RlmAnnouncement::kBytes;
}

}  // namespace tiercast::wire
