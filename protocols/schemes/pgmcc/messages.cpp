#include "protocols/schemes/pgmcc/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {
namespace {

// Makes the checks up to the length of the fixed part. `ends`: nothing may follow it.
Error parse_fixed(std::span<const std::byte> message, Type type, std::size_t bytes, bool ends,
                  CommonHeader& common) {
  const Error error = parse_common(message, common);
  if (error != Error::kOk) return error;
  if (common.type != type) return Error::kType;
  if (common.scheme != SchemeId::kPgmcc) return Error::kScheme;
  if (message.size() < bytes) return Error::kShort;
  if (common.header_length != bytes || (ends && message.size() > bytes)) return Error::kLength;
  return Error::kOk;
}

bool reserved_is_zero(std::span<const std::byte> message) {
  return get8(message, 9) == 0 && get16(message, 10) == 0;
}

void write_fixed(Type type, std::size_t bytes, std::uint16_t session, std::uint8_t first,
                 std::span<std::byte> out) {
  write_common({type, SchemeId::kPgmcc, static_cast<std::uint16_t>(bytes), session}, out);
  put8(out, 8, first);
  put8(out, 9, 0);
  put16(out, 10, 0);
}

}  // namespace

Error parse(std::span<const std::byte> message, PgmccData& out) {
  CommonHeader common;
  const Error error = parse_fixed(message, Type::kData, PgmccData::kBytes, false, common);
  if (error != Error::kOk) return error;
  if (get8(message, 8) > 1 || !reserved_is_zero(message)) return Error::kReserved;
  out.session = common.session;
  out.has_acker = get8(message, 8) == 1;
  out.seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  out.acker = get32(message, 20);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, PgmccFeedback& out) {
  CommonHeader common;
  const Error error = parse_fixed(message, Type::kFeedback, PgmccFeedback::kBytes, true, common);
  if (error != Error::kOk) return error;
  const std::uint8_t kind = get8(message, 8);
  if (kind < 1 || kind > 4) return Error::kType;
  if (!reserved_is_zero(message)) return Error::kReserved;
  out.session = common.session;
  out.kind = static_cast<PgmccFeedback::Kind>(kind);
  out.source = get32(message, 12);
  out.rx_max = get32(message, 16);
  out.bitmap = get32(message, 20);
  out.echo_time_us = get32(message, 24);
  out.hold_us = get32(message, 28);
  out.loss = get32(message, 32);
  out.missing = get32(message, 36);
  if ((out.kind != PgmccFeedback::Kind::kNak && out.missing != 0)) return Error::kRecord;
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, PgmccConfirmation& out) {
  CommonHeader common;
  const Error error = parse_fixed(message, Type::kControl, PgmccConfirmation::kBytes, true, common);
  if (error != Error::kOk) return error;
  if (get8(message, 8) != PgmccConfirmation::kKind) return Error::kType;
  if (!reserved_is_zero(message)) return Error::kReserved;
  out.session = common.session;
  out.source = get32(message, 12);
  out.missing = get32(message, 16);
  return Error::kOk;
}

std::size_t write(const PgmccData& data, std::span<std::byte> out) {
  if (out.size() < PgmccData::kBytes || data.session > kMaxSession) return 0;
  write_fixed(Type::kData, PgmccData::kBytes, data.session, data.has_acker ? 1 : 0, out);
  put32(out, 12, data.seq);
  put32(out, 16, data.tx_time_us);
  put32(out, 20, data.acker);
  return PgmccData::kBytes;
}

std::size_t write(const PgmccFeedback& feedback, std::span<std::byte> out) {
  if (out.size() < PgmccFeedback::kBytes || feedback.session > kMaxSession) return 0;
  write_fixed(Type::kFeedback, PgmccFeedback::kBytes, feedback.session,
              static_cast<std::uint8_t>(feedback.kind), out);
  put32(out, 12, feedback.source);
  put32(out, 16, feedback.rx_max);
  put32(out, 20, feedback.bitmap);
  put32(out, 24, feedback.echo_time_us);
  put32(out, 28, feedback.hold_us);
  put32(out, 32, feedback.loss);
  put32(out, 36, feedback.missing);
  return PgmccFeedback::kBytes;
}

std::size_t write(const PgmccConfirmation& confirmation, std::span<std::byte> out) {
  if (out.size() < PgmccConfirmation::kBytes || confirmation.session > kMaxSession) return 0;
  write_fixed(Type::kControl, PgmccConfirmation::kBytes, confirmation.session,
              PgmccConfirmation::kKind, out);
  put32(out, 12, confirmation.source);
  put32(out, 16, confirmation.missing);
  return PgmccConfirmation::kBytes;
}

}  // namespace tiercast::wire
