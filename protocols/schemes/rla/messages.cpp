#include "protocols/schemes/rla/messages.h"

#include "protocols/base/serial.h"
#include "protocols/wire/bytes.h"

namespace tiercast::wire {

std::uint32_t RlaAck::end() const {
  std::uint32_t end = cum_ack;
  for (std::size_t i = 0; i < record_count; ++i) {
    if (serial_newer(sacks[i].end, end)) end = sacks[i].end;
  }
  return end;
}

Error parse(std::span<const std::byte> message, RlaData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kRla, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < RlaData::kBytes) return Error::kShort;
  if (common.header_length != RlaData::kBytes) return Error::kLength;
  out.session = common.session;
  out.flags = get8(message, 8);
  if ((out.flags & ~RlaData::kFlags) != 0 || get8(message, 9) != 0) return Error::kReserved;
  out.payload_length = get16(message, 10);
  if (out.payload_length > message.size() - RlaData::kBytes) return Error::kShort;
  out.seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  out.base = get32(message, 20);
  out.offset = static_cast<std::uint64_t>(get32(message, 24)) << 32 | get32(message, 28);
  if (serial_newer(out.base, out.seq) ||
      (out.payload_length == 0 && (out.offset != 0 || (out.flags & RlaData::kLast) != 0))) {
    return Error::kRecord;
  }
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, RlaAck& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kRla, Type::kFeedback, common);
  if (error != Error::kOk) return error;
  if (message.size() < RlaAck::kFixedBytes) return Error::kShort;
  out.session = common.session;
  out.flags = get8(message, 8);
  out.record_count = get8(message, 9);
  if (out.record_count > RlaAck::kMaxRecords) return Error::kRecordCount;
  if (common.header_length != out.bytes()) return Error::kLength;
  if (message.size() < out.bytes()) return Error::kShort;
  if (message.size() > out.bytes()) return Error::kLength;
  if ((out.flags & ~RlaAck::kFlags) != 0) return Error::kReserved;
  out.rwnd = get16(message, 10);
  out.source = get32(message, 12);
  out.cum_ack = get32(message, 16);
  out.echo_time_us = get32(message, 20);
  for (std::size_t i = 0; i < out.record_count; ++i) {
    const auto in = message.subspan(RlaAck::kFixedBytes + i * RlaSack::kBytes);
    out.sacks[i] = {get32(in, 0), get32(in, 4)};
    if (!serial_newer(out.sacks[i].end, out.sacks[i].start) ||
        !serial_newer(out.sacks[i].start, out.cum_ack) ||
        !serial_newer(out.sacks[i].end, out.cum_ack)) {
      return Error::kRecord;
    }
  }
  return Error::kOk;
}

std::size_t write(const RlaData& data, std::span<std::byte> out) {
  if (out.size() < RlaData::kBytes || data.session > kMaxSession ||
      (data.flags & ~RlaData::kFlags) != 0) {
    return 0;
  }
  write_common({Type::kData, SchemeId::kRla, RlaData::kBytes, data.session}, out);
  put8(out, 8, data.flags);
  put8(out, 9, 0);
  put16(out, 10, data.payload_length);
  put32(out, 12, data.seq);
  put32(out, 16, data.tx_time_us);
  put32(out, 20, data.base);
  put32(out, 24, static_cast<std::uint32_t>(data.offset >> 32));
  put32(out, 28, static_cast<std::uint32_t>(data.offset));
  return RlaData::kBytes;
}

std::size_t write(const RlaAck& ack, std::span<std::byte> out) {
  if (ack.record_count > RlaAck::kMaxRecords || ack.session > kMaxSession ||
      (ack.flags & ~RlaAck::kFlags) != 0 || out.size() < ack.bytes()) {
    return 0;
  }
  write_common(
      {Type::kFeedback, SchemeId::kRla, static_cast<std::uint16_t>(ack.bytes()), ack.session}, out);
  put8(out, 8, ack.flags);
  put8(out, 9, ack.record_count);
  put16(out, 10, ack.rwnd);
  put32(out, 12, ack.source);
  put32(out, 16, ack.cum_ack);
  put32(out, 20, ack.echo_time_us);
  for (std::size_t i = 0; i < ack.record_count; ++i) {
    const auto at = out.subspan(RlaAck::kFixedBytes + i * RlaSack::kBytes);
    put32(at, 0, ack.sacks[i].start);
    put32(at, 4, ack.sacks[i].end);
  }
  return ack.bytes();
}

}  // namespace tiercast::wire
