#include "protocols/schemes/mlda/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {
namespace {

constexpr std::uint8_t kMaxPair = 2;

// Checks a message without payload, which must be `bytes` long.
Error check_length(std::span<const std::byte> message, const CommonHeader& common,
                   std::size_t bytes) {
  if (common.header_length != bytes) return Error::kLength;
  if (message.size() < bytes) return Error::kShort;
  if (message.size() > bytes) return Error::kLength;
  return Error::kOk;
}

}  // namespace

Error parse(std::span<const std::byte> message, MldaData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kMlda, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < MldaData::kBytes) return Error::kShort;
  if (common.header_length != MldaData::kBytes) return Error::kLength;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  out.pair = get8(message, 9);
  if (out.pair > kMaxPair || get16(message, 10) != 0) return Error::kReserved;
  out.seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MldaSenderReport& out) {
  CommonHeader common;
  Error error = parse_common(message, SchemeId::kMlda, Type::kControl, common);
  if (error != Error::kOk) return error;
  if (message.size() < CommonHeader::kBytes + 1) return Error::kShort;
  if (get8(message, 8) != MldaSenderReport::kKind) return Error::kType;
  if (message.size() < MldaSenderReport::kFixedBytes) return Error::kShort;
  out.session = common.session;
  out.record_count = get8(message, 9);
  if (out.record_count < 1 || out.record_count > MldaSenderReport::kMaxRecords) {
    return Error::kRecordCount;
  }
  error = check_length(message, common, out.bytes());
  if (error != Error::kOk) return error;
  if (get16(message, 10) != 0) return Error::kReserved;
  out.sr_seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  out.max_rtt_us = get32(message, 20);
  for (std::size_t k = 0; k < out.record_count; ++k) {
    out.rate[k] =
        get32(message, MldaSenderReport::kFixedBytes + k * MldaSenderReport::kRecordBytes);
    if (out.rate[k] == 0) return Error::kRecord;
  }
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MldaReceiverReport& out) {
  CommonHeader common;
  Error error = parse_common(message, SchemeId::kMlda, Type::kFeedback, common);
  if (error != Error::kOk) return error;
  if (message.size() < MldaReceiverReport::kBytes) return Error::kShort;
  error = check_length(message, common, MldaReceiverReport::kBytes);
  if (error != Error::kOk) return error;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  if (get8(message, 9) > 1 || get16(message, 10) != 0) return Error::kReserved;
  out.asks_rtt = get8(message, 9) == 1;
  out.source = get32(message, 12);
  out.sr_seq = get32(message, 16);
  out.rate = get32(message, 20);
  out.loss = get32(message, 24);
  out.rtt_us = get32(message, 28);
  out.rx_time_us = get32(message, 32);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MldaReflection& out) {
  CommonHeader common;
  Error error = parse_common(message, SchemeId::kMlda, Type::kControl, common);
  if (error != Error::kOk) return error;
  if (message.size() < CommonHeader::kBytes + 1) return Error::kShort;
  if (get8(message, 8) != MldaReflection::kKind) return Error::kType;
  if (message.size() < MldaReflection::kBytes) return Error::kShort;
  error = check_length(message, common, MldaReflection::kBytes);
  if (error != Error::kOk) return error;
  out.session = common.session;
  out.rank = get8(message, 9);
  if (out.rank > kMaxRank) return Error::kRank;
  if (get8(message, 10) > 1 || get8(message, 11) != 0) return Error::kReserved;
  out.asks_rtt = get8(message, 10) == 1;
  out.source = get32(message, 12);
  out.sr_seq = get32(message, 16);
  out.rate = get32(message, 20);
  out.rx_time_us = get32(message, 24);
  out.tx_time_us = get32(message, 28);
  return Error::kOk;
}

std::size_t write(const MldaData& data, std::span<std::byte> out) {
  if (out.size() < MldaData::kBytes || data.rank > kMaxRank || data.session > kMaxSession ||
      data.pair > kMaxPair) {
    return 0;
  }
  write_common({Type::kData, SchemeId::kMlda, MldaData::kBytes, data.session}, out);
  put8(out, 8, data.rank);
  put8(out, 9, data.pair);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  put32(out, 16, data.tx_time_us);
  return MldaData::kBytes;
}

std::size_t write(const MldaSenderReport& report, std::span<std::byte> out) {
  if (report.record_count < 1 || report.record_count > MldaSenderReport::kMaxRecords ||
      report.session > kMaxSession || out.size() < report.bytes()) {
    return 0;
  }
  write_common(
      {Type::kControl, SchemeId::kMlda, static_cast<std::uint16_t>(report.bytes()), report.session},
      out);
  put8(out, 8, MldaSenderReport::kKind);
  put8(out, 9, report.record_count);
  put16(out, 10, 0);
  put32(out, 12, report.sr_seq);
  put32(out, 16, report.tx_time_us);
  put32(out, 20, report.max_rtt_us);
  for (std::size_t k = 0; k < report.record_count; ++k) {
    if (report.rate[k] == 0) return 0;
    put32(out, MldaSenderReport::kFixedBytes + k * MldaSenderReport::kRecordBytes, report.rate[k]);
  }
  return report.bytes();
}

std::size_t write(const MldaReceiverReport& report, std::span<std::byte> out) {
  if (out.size() < MldaReceiverReport::kBytes || report.rank > kMaxRank ||
      report.session > kMaxSession) {
    return 0;
  }
  write_common({Type::kFeedback, SchemeId::kMlda, MldaReceiverReport::kBytes, report.session}, out);
  put8(out, 8, report.rank);
  put8(out, 9, report.asks_rtt ? 1 : 0);
  put16(out, 10, 0);
  put32(out, 12, report.source);
  put32(out, 16, report.sr_seq);
  put32(out, 20, report.rate);
  put32(out, 24, report.loss);
  put32(out, 28, report.rtt_us);
  put32(out, 32, report.rx_time_us);
  return MldaReceiverReport::kBytes;
}

std::size_t write(const MldaReflection& reflection, std::span<std::byte> out) {
  if (out.size() < MldaReflection::kBytes || reflection.rank > kMaxRank ||
      reflection.session > kMaxSession) {
    return 0;
  }
  write_common({Type::kControl, SchemeId::kMlda, MldaReflection::kBytes, reflection.session}, out);
  put8(out, 8, MldaReflection::kKind);
  put8(out, 9, reflection.rank);
  put8(out, 10, reflection.asks_rtt ? 1 : 0);
  put8(out, 11, 0);
  put32(out, 12, reflection.source);
  put32(out, 16, reflection.sr_seq);
  put32(out, 20, reflection.rate);
  put32(out, 24, reflection.rx_time_us);
  put32(out, 28, reflection.tx_time_us);
  return MldaReflection::kBytes;
}

}  // namespace tiercast::wire
