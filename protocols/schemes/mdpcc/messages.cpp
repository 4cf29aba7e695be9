#include "protocols/schemes/mdpcc/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {
namespace {

Error parse_mdpcc(std::span<const std::byte> message, CommonHeader& common) {
  const Error error = parse_common(message, common);
  if (error != Error::kOk) return error;
  return common.scheme == SchemeId::kMdpcc ? Error::kOk : Error::kScheme;
}

// For the types that have kinds.
Error parse_kind(std::span<const std::byte> message, CommonHeader& common, std::uint8_t& kind) {
  const Error error = parse_mdpcc(message, common);
  if (error != Error::kOk) return error;
  if (common.type == Type::kData) return Error::kType;
  if (message.size() < 9) return Error::kShort;
  kind = get8(message, 8);
  return Error::kOk;
}

// `reflected`: true for the reflected form, false for the receiver's.
Error parse_form(std::span<const std::byte> message, CommonHeader& common,
                 std::uint8_t feedback_kind, std::uint8_t control_kind, bool& reflected) {
  std::uint8_t kind = 0;
  const Error error = parse_kind(message, common, kind);
  if (error != Error::kOk) return error;
  reflected = common.type == Type::kControl;
  return kind == (reflected ? control_kind : feedback_kind) ? Error::kOk : Error::kType;
}

// For messages that end with their last record.
Error check_end(std::span<const std::byte> message, const CommonHeader& common, std::size_t bytes) {
  if (common.header_length != bytes) return Error::kLength;
  if (message.size() < bytes) return Error::kShort;
  return message.size() > bytes ? Error::kLength : Error::kOk;
}

}  // namespace

Error parse(std::span<const std::byte> message, MdpccData& out) {
  CommonHeader common;
  const Error error = parse_mdpcc(message, common);
  if (error != Error::kOk) return error;
  if (common.type != Type::kData) return Error::kType;
  if (message.size() < MdpccData::kBytes) return Error::kShort;
  if (common.header_length != MdpccData::kBytes) return Error::kLength;
  if (get16(message, 26) != 0) return Error::kReserved;
  out.session = common.session;
  out.object_id = get16(message, 8);
  out.segment_size = get16(message, 10);
  out.seq = get32(message, 12);
  out.segment = get32(message, 16);
  out.segment_count = get32(message, 20);
  out.payload_length = get16(message, 24);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MdpccProbe& out) {
  CommonHeader common;
  std::uint8_t kind = 0;
  Error error = parse_kind(message, common, kind);
  if (error != Error::kOk) return error;
  if (common.type != Type::kControl || kind != MdpccProbe::kKind) return Error::kType;
  if (message.size() < MdpccProbe::kFixedBytes) return Error::kShort;
  out.session = common.session;
  out.record_count = get8(message, 9);
  if (out.record_count > MdpccProbe::kMaxRecords) return Error::kRecordCount;
  error = check_end(message, common, out.bytes());
  if (error != Error::kOk) return error;
  if (get8(message, 27) != 0) return Error::kReserved;
  out.probe_seq = get16(message, 10);
  out.tx_time_us = get32(message, 12);
  out.grtt_us = get32(message, 16);
  out.tx_rate = get32(message, 20);
  out.group_size = get16(message, 24);
  out.backoff = get8(message, 26);
  out.object_id = get16(message, 28);
  out.segment_size = get16(message, 30);
  out.segment_count = get32(message, 32);
  out.next_segment = get32(message, 36);
  for (std::size_t i = 0; i < out.record_count; ++i) {
    const auto in = message.subspan(MdpccProbe::kFixedBytes + i * MdpccRepresentative::kBytes);
    MdpccRepresentative& r = out.representatives[i];
    if (get8(in, 13) != 0 || get16(in, 14) != 0) return Error::kReserved;
    r.receiver = get32(in, 0);
    r.rtt_us = get32(in, 4);
    r.rate = get32(in, 8);
    r.flags = get8(in, 12);
  }
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MdpccReport& out) {
  CommonHeader common;
  Error error = parse_form(message, common, MdpccReport::kFeedbackKind, MdpccReport::kControlKind,
                           out.reflected);
  if (error != Error::kOk) return error;
  if (message.size() < MdpccReport::kBytes) return Error::kShort;
  error = check_end(message, common, MdpccReport::kBytes);
  if (error != Error::kOk) return error;
  out.session = common.session;
  out.flags = get8(message, 9);
  out.probe_seq = get16(message, 10);
  out.source = get32(message, 12);
  out.response_us = get32(message, 16);
  out.loss = get32(message, 20);
  out.rate = get32(message, 24);
  out.received_rate = get32(message, 28);
  out.rtt_us = get32(message, 32);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, MdpccNack& out) {
  CommonHeader common;
  Error error =
      parse_form(message, common, MdpccNack::kFeedbackKind, MdpccNack::kControlKind, out.reflected);
  if (error != Error::kOk) return error;
  if (message.size() < MdpccNack::kFixedBytes) return Error::kShort;
  out.session = common.session;
  out.record_count = get8(message, 9);
  if (out.record_count > MdpccNack::kMaxRecords) return Error::kRecordCount;
  error = check_end(message, common, out.bytes());
  if (error != Error::kOk) return error;
  out.object_id = get16(message, 10);
  out.source = get32(message, 12);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < out.record_count; ++i) {
    const auto in = message.subspan(MdpccNack::kFixedBytes + i * MdpccSegments::kBytes);
    out.segments[i] = {get32(in, 0), get32(in, 4)};
    const std::uint64_t after = std::uint64_t{out.segments[i].first} + out.segments[i].count;
    if (out.segments[i].count == 0 || after > 0xffffffff || out.segments[i].first < end) {
      return Error::kRecord;
    }
    end = after;
  }
  return Error::kOk;
}

std::size_t write(const MdpccData& data, std::span<std::byte> out) {
  if (out.size() < MdpccData::kBytes || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kMdpcc, MdpccData::kBytes, data.session}, out);
  put16(out, 8, data.object_id);
  put16(out, 10, data.segment_size);
  put32(out, 12, data.seq);
  put32(out, 16, data.segment);
  put32(out, 20, data.segment_count);
  put16(out, 24, data.payload_length);
  put16(out, 26, 0);
  return MdpccData::kBytes;
}

std::size_t write(const MdpccProbe& probe, std::span<std::byte> out) {
  if (probe.record_count > MdpccProbe::kMaxRecords || probe.session > kMaxSession ||
      out.size() < probe.bytes()) {
    return 0;
  }
  write_common(
      {Type::kControl, SchemeId::kMdpcc, static_cast<std::uint16_t>(probe.bytes()), probe.session},
      out);
  put8(out, 8, MdpccProbe::kKind);
  put8(out, 9, probe.record_count);
  put16(out, 10, probe.probe_seq);
  put32(out, 12, probe.tx_time_us);
  put32(out, 16, probe.grtt_us);
  put32(out, 20, probe.tx_rate);
  put16(out, 24, probe.group_size);
  put8(out, 26, probe.backoff);
  put8(out, 27, 0);
  put16(out, 28, probe.object_id);
  put16(out, 30, probe.segment_size);
  put32(out, 32, probe.segment_count);
  put32(out, 36, probe.next_segment);
  for (std::size_t i = 0; i < probe.record_count; ++i) {
    const auto at = out.subspan(MdpccProbe::kFixedBytes + i * MdpccRepresentative::kBytes);
    const MdpccRepresentative& r = probe.representatives[i];
    put32(at, 0, r.receiver);
    put32(at, 4, r.rtt_us);
    put32(at, 8, r.rate);
    put8(at, 12, r.flags);
    put8(at, 13, 0);
    put16(at, 14, 0);
  }
  return probe.bytes();
}

std::size_t write(const MdpccReport& report, std::span<std::byte> out) {
  if (out.size() < MdpccReport::kBytes || report.session > kMaxSession) return 0;
  write_common({report.reflected ? Type::kControl : Type::kFeedback, SchemeId::kMdpcc,
                MdpccReport::kBytes, report.session},
               out);
  put8(out, 8, report.reflected ? MdpccReport::kControlKind : MdpccReport::kFeedbackKind);
  put8(out, 9, report.flags);
  put16(out, 10, report.probe_seq);
  put32(out, 12, report.source);
  put32(out, 16, report.response_us);
  put32(out, 20, report.loss);
  put32(out, 24, report.rate);
  put32(out, 28, report.received_rate);
  put32(out, 32, report.rtt_us);
  return MdpccReport::kBytes;
}

std::size_t write(const MdpccNack& nack, std::span<std::byte> out) {
  if (nack.record_count > MdpccNack::kMaxRecords || nack.session > kMaxSession ||
      out.size() < nack.bytes()) {
    return 0;
  }
  write_common({nack.reflected ? Type::kControl : Type::kFeedback, SchemeId::kMdpcc,
                static_cast<std::uint16_t>(nack.bytes()), nack.session},
               out);
  put8(out, 8, nack.reflected ? MdpccNack::kControlKind : MdpccNack::kFeedbackKind);
  put8(out, 9, nack.record_count);
  put16(out, 10, nack.object_id);
  put32(out, 12, nack.source);
  for (std::size_t i = 0; i < nack.record_count; ++i) {
    const auto at = out.subspan(MdpccNack::kFixedBytes + i * MdpccSegments::kBytes);
    put32(at, 0, nack.segments[i].first);
    put32(at, 4, nack.segments[i].count);
  }
  return nack.bytes();
}

}  // namespace tiercast::wire
