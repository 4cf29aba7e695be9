#include "protocols/schemes/sim/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, SimData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kSim, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < SimData::kBytes) return Error::kShort;
  if (common.header_length != SimData::kBytes) return Error::kLength;
  out.session = common.session;
  out.rank = get8(message, 8);
  if (out.rank > kMaxRank) return Error::kRank;
  if (get8(message, 9) != 0) return Error::kReserved;
  out.rate_epoch = get16(message, 10);
  out.seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  out.fb_req = get32(message, 20);
  out.group_rate = get32(message, 24);
  out.max_rtt_us = get32(message, 28);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, SimFeedback& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kSim, Type::kFeedback, common);
  if (error != Error::kOk) return error;
  if (message.size() < SimFeedback::kFixedBytes) return Error::kShort;
  out.session = common.session;
  out.source = get32(message, 8);
  out.fb_req = get32(message, 12);
  out.hold_us = get32(message, 16);
  out.subtree_rtt_us = get32(message, 20);
  out.record_count = get8(message, 24);
  if (out.record_count > SimFeedback::kMaxRecords) return Error::kRecordCount;
  if (common.header_length != out.bytes()) return Error::kLength;
  if (message.size() < out.bytes()) return Error::kShort;
  if (message.size() > out.bytes()) return Error::kLength;
  if (get8(message, 25) != 0 || get16(message, 26) != 0) return Error::kReserved;
  for (std::size_t i = 0; i < out.record_count; ++i) {
    const auto in = message.subspan(SimFeedback::kFixedBytes + i * SimRecord::kBytes);
    SimRecord& record = out.records[i];
    record.rank = get8(in, 0);
    if (record.rank > kMaxRank) return Error::kRank;
    if (get8(in, 1) != 0 || get16(in, 2) != 0) return Error::kReserved;
    if (i > 0 && record.rank <= out.records[i - 1].rank) return Error::kRecord;
    record.reports = get32(in, 4);
    record.congested = get32(in, 8);
    record.min_cum_rate = get32(in, 12);
    record.max_cum_rate = get32(in, 16);
    record.receivers = get32(in, 20);
    if (record.congested > record.reports || record.reports > record.receivers ||
        record.min_cum_rate > record.max_cum_rate) {
      return Error::kRecord;
    }
  }
  return Error::kOk;
}

std::size_t write(const SimData& data, std::span<std::byte> out) {
  if (out.size() < SimData::kBytes || data.rank > kMaxRank || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kSim, SimData::kBytes, data.session}, out);
  put8(out, 8, data.rank);
  put8(out, 9, 0);
  put16(out, 10, data.rate_epoch);
  put32(out, 12, data.seq);
  put32(out, 16, data.tx_time_us);
  put32(out, 20, data.fb_req);
  put32(out, 24, data.group_rate);
  put32(out, 28, data.max_rtt_us);
  return SimData::kBytes;
}

std::size_t write(const SimFeedback& feedback, std::span<std::byte> out) {
  if (feedback.record_count > SimFeedback::kMaxRecords || feedback.session > kMaxSession ||
      out.size() < feedback.bytes()) {
    return 0;
  }
  for (std::size_t i = 0; i < feedback.record_count; ++i) {
    if (feedback.records[i].rank > kMaxRank) return 0;
  }
  write_common({Type::kFeedback, SchemeId::kSim, static_cast<std::uint16_t>(feedback.bytes()),
                feedback.session},
               out);
  put32(out, 8, feedback.source);
  put32(out, 12, feedback.fb_req);
  put32(out, 16, feedback.hold_us);
  put32(out, 20, feedback.subtree_rtt_us);
  put8(out, 24, feedback.record_count);
  put8(out, 25, 0);
  put16(out, 26, 0);
  for (std::size_t i = 0; i < feedback.record_count; ++i) {
    const auto at = out.subspan(SimFeedback::kFixedBytes + i * SimRecord::kBytes);
    const SimRecord& record = feedback.records[i];
    put8(at, 0, record.rank);
    put8(at, 1, 0);
    put16(at, 2, 0);
    put32(at, 4, record.reports);
    put32(at, 8, record.congested);
    put32(at, 12, record.min_cum_rate);
    put32(at, 16, record.max_cum_rate);
    put32(at, 20, record.receivers);
  }
  return feedback.bytes();
}

}  // namespace tiercast::wire
