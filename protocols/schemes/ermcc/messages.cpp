#include "protocols/schemes/ermcc/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, ErmccData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kErmcc, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < ErmccData::kBytes) return Error::kShort;
  if (common.header_length != ErmccData::kBytes) return Error::kLength;
  const std::uint8_t cr_valid = get8(message, 8);
  if (get8(message, 9) != 0 || get16(message, 10) != 0) return Error::kReserved;
  if (cr_valid > 1) return Error::kRecord;
  out.session = common.session;
  out.cr_valid = cr_valid == 1;
  out.seq = get32(message, 12);
  out.cr = get32(message, 16);
  out.mu_hat = get32(message, 20);
  out.sigma_hat = get32(message, 24);
  out.ask_from = get32(message, 28);
  out.ask_share = get32(message, 32);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, ErmccFeedback& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kErmcc, Type::kFeedback, common);
  if (error != Error::kOk) return error;
  if (message.size() < ErmccFeedback::kBytes) return Error::kShort;
  const std::uint8_t kind = get8(message, 8);
  if (kind != 1 && kind != 2) return Error::kType;
  if (common.header_length != ErmccFeedback::kBytes) return Error::kLength;
  if (message.size() > ErmccFeedback::kBytes) return Error::kLength;
  if (get8(message, 9) != 0 || get16(message, 10) != 0) return Error::kReserved;
  out.session = common.session;
  out.kind = static_cast<ErmccFeedback::Kind>(kind);
  out.source = get32(message, 12);
  out.seq = get32(message, 16);
  out.omega = get32(message, 20);
  out.mu = get32(message, 24);
  out.sigma = get32(message, 28);
  return Error::kOk;
}

std::size_t write(const ErmccData& data, std::span<std::byte> out) {
  if (out.size() < ErmccData::kBytes || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kErmcc, ErmccData::kBytes, data.session}, out);
  put8(out, 8, data.cr_valid ? 1 : 0);
  put8(out, 9, 0);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  put32(out, 16, data.cr);
  put32(out, 20, data.mu_hat);
  put32(out, 24, data.sigma_hat);
  put32(out, 28, data.ask_from);
  put32(out, 32, data.ask_share);
  return ErmccData::kBytes;
}

std::size_t write(const ErmccFeedback& feedback, std::span<std::byte> out) {
  if (out.size() < ErmccFeedback::kBytes || feedback.session > kMaxSession) return 0;
  write_common({Type::kFeedback, SchemeId::kErmcc, ErmccFeedback::kBytes, feedback.session}, out);
  put8(out, 8, static_cast<std::uint8_t>(feedback.kind));
  put8(out, 9, 0);
  put16(out, 10, 0);
  put32(out, 12, feedback.source);
  put32(out, 16, feedback.seq);
  put32(out, 20, feedback.omega);
  put32(out, 24, feedback.mu);
  put32(out, 28, feedback.sigma);
  return ErmccFeedback::kBytes;
}

}  // namespace tiercast::wire
