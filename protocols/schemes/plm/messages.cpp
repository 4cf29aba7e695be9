#include "protocols/schemes/plm/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, PlmData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kPlm, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < PlmData::kBytes) return Error::kShort;
  if (common.header_length != PlmData::kBytes) return Error::kLength;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  out.pair = get8(message, 9);
  if (out.pair < 1 || out.pair > 2) return Error::kRecord;
  if (get16(message, 10) != 0) return Error::kReserved;
  out.seq = get32(message, 12);
  return Error::kOk;
}

std::size_t write(const PlmData& data, std::span<std::byte> out) {
  if (out.size() < PlmData::kBytes || data.rank > kMaxRank || data.session > kMaxSession ||
      data.pair < 1 || data.pair > 2) {
    return 0;
  }
  write_common({Type::kData, SchemeId::kPlm, PlmData::kBytes, data.session}, out);
  put8(out, 8, data.rank);
  put8(out, 9, data.pair);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  return PlmData::kBytes;
}

}  // namespace tiercast::wire
