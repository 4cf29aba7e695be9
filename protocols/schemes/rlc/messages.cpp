#include "protocols/schemes/rlc/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, RlcData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kRlc, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < RlcData::kBytes) return Error::kShort;
  if (common.header_length != RlcData::kBytes) return Error::kLength;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  const std::uint8_t sync_point = get8(message, 9);
  if (sync_point > 1 || get16(message, 10) != 0) return Error::kReserved;
  out.sync_point = sync_point == 1;
  out.seq = get32(message, 12);
  return Error::kOk;
}

std::size_t write(const RlcData& data, std::span<std::byte> out) {
  if (out.size() < RlcData::kBytes || data.rank > kMaxRank || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kRlc, RlcData::kBytes, data.session}, out);
  put8(out, 8, data.rank);
  put8(out, 9, data.sync_point ? 1 : 0);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  return RlcData::kBytes;
}

}  // namespace tiercast::wire
