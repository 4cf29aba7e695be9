#include "protocols/schemes/tfmcc/messages.h"

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

Error parse(std::span<const std::byte> message, TfmccData& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kTfmcc, Type::kData, common);
  if (error != Error::kOk) return error;
  if (message.size() < TfmccData::kBytes) return Error::kShort;
  if (common.header_length != TfmccData::kBytes) return Error::kLength;
  if (get16(message, 10) != 0 || get16(message, 22) != 0) return Error::kReserved;
  if (get8(message, 8) > 1 || get8(message, 9) > 1) return Error::kRecord;
  out.session = common.session;
  out.echo_valid = get8(message, 8) == 1;
  out.is_clr = get8(message, 9) == 1;
  out.seq = get32(message, 12);
  out.tx_time_us = get32(message, 16);
  out.fb_round = get16(message, 20);
  out.supp_rate = get32(message, 24);
  out.max_rtt_us = get32(message, 28);
  out.echo_source = get32(message, 32);
  out.echo_time_us = get32(message, 36);
  return Error::kOk;
}

Error parse(std::span<const std::byte> message, TfmccFeedback& out) {
  CommonHeader common;
  const Error error = parse_common(message, SchemeId::kTfmcc, Type::kFeedback, common);
  if (error != Error::kOk) return error;
  if (message.size() < TfmccFeedback::kBytes) return Error::kShort;
  if (common.header_length != TfmccFeedback::kBytes) return Error::kLength;
  if (message.size() > TfmccFeedback::kBytes) return Error::kLength;
  if (get8(message, 11) != 0 || get16(message, 18) != 0) return Error::kReserved;
  for (std::size_t at = 8; at <= 10; ++at) {
    if (get8(message, at) > 1) return Error::kRecord;
  }
  out.session = common.session;
  out.have_rtt = get8(message, 8) == 1;
  out.have_loss = get8(message, 9) == 1;
  out.leave = get8(message, 10) == 1;
  out.source = get32(message, 12);
  out.fb_round = get16(message, 16);
  out.rate = get32(message, 20);
  out.time_us = get32(message, 24);
  out.echo_time_us = get32(message, 28);
  return Error::kOk;
}

std::size_t write(const TfmccData& data, std::span<std::byte> out) {
  if (out.size() < TfmccData::kBytes || data.session > kMaxSession) return 0;
  write_common({Type::kData, SchemeId::kTfmcc, TfmccData::kBytes, data.session}, out);
  put8(out, 8, data.echo_valid ? 1 : 0);
  put8(out, 9, data.is_clr ? 1 : 0);
  put16(out, 10, 0);
  put32(out, 12, data.seq);
  put32(out, 16, data.tx_time_us);
  put16(out, 20, data.fb_round);
  put16(out, 22, 0);
  put32(out, 24, data.supp_rate);
  put32(out, 28, data.max_rtt_us);
  put32(out, 32, data.echo_source);
  put32(out, 36, data.echo_time_us);
  return TfmccData::kBytes;
}

std::size_t write(const TfmccFeedback& feedback, std::span<std::byte> out) {
  if (out.size() < TfmccFeedback::kBytes || feedback.session > kMaxSession) return 0;
  write_common({Type::kFeedback, SchemeId::kTfmcc, TfmccFeedback::kBytes, feedback.session}, out);
  put8(out, 8, feedback.have_rtt ? 1 : 0);
  put8(out, 9, feedback.have_loss ? 1 : 0);
  put8(out, 10, feedback.leave ? 1 : 0);
  put8(out, 11, 0);
  put32(out, 12, feedback.source);
  put16(out, 16, feedback.fb_round);
  put16(out, 18, 0);
  put32(out, 20, feedback.rate);
  put32(out, 24, feedback.time_us);
  put32(out, 28, feedback.echo_time_us);
  return TfmccFeedback::kBytes;
}

}  // namespace tiercast::wire
