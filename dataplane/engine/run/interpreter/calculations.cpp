#include "dataplane/engine/run/interpreter/calculations.h"

#include <algorithm>
#include <cstring>

#include "dataplane/engine/packet/bits.h"
#include "dataplane/engine/packet/random.h"

namespace tiercast::engine {

namespace {

std::uint64_t csum16(std::span<const std::byte> data) {  // RFC 1071
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

std::uint64_t xor16(std::span<const std::byte> data) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    sum ^= std::to_integer<std::uint64_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
  }
  return sum;
}

// Reflected CRCs: CRC-16/ARC (polynomial 0x8005) and CRC-32 (0x04c11db7).
std::uint64_t reflected_crc(std::span<const std::byte> data, std::uint32_t polynomial,
                            std::uint32_t init) {
  std::uint32_t crc = init;
  for (std::byte b : data) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
  }
  return crc ^ init;
}

std::uint64_t reflect(std::uint64_t value, unsigned bits) {
  std::uint64_t reflected = 0;
  for (unsigned i = 0; i < bits; ++i) reflected |= (value >> i & 1) << (bits - 1 - i);
  return reflected;
}

// Any CRC of `bits` bits, most significant bit first.
std::uint64_t crc(std::span<const std::byte> data, const CrcParameters& p, unsigned bits) {
  std::uint64_t crc = p.initial & low_mask(bits);
  for (std::byte b : data) {
    const auto byte = std::to_integer<std::uint64_t>(b);
    crc ^= (p.reflect_data ? reflect(byte, 8) : byte) << (bits - 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc << 1 ^ (crc >> (bits - 1) & 1 ? p.polynomial : 0);
      crc &= low_mask(bits);
    }
  }
  if (p.reflect_remainder) crc = reflect(crc, bits);
  return (crc ^ p.final_xor) & low_mask(bits);
}

// The first 8 bytes, as in bmv2.
std::uint64_t identity(std::span<const std::byte> data) {
  std::uint64_t value = 0;
  for (std::byte b : data.first(std::min<std::size_t>(data.size(), 8))) {
    value = value << 8 | std::to_integer<std::uint64_t>(b);
  }
  return value;
}

}  // namespace

Cell Calculations::apply(std::uint32_t calculation, std::span<const std::byte> data) {
  switch (image_.calculations[calculation].algorithm) {
    case Algorithm::kCsum16: return csum16(data);
    case Algorithm::kXor16: return xor16(data);
    case Algorithm::kCrc16: return reflected_crc(data, 0xa001, 0);
    case Algorithm::kCrc32: return reflected_crc(data, 0xedb88320, 0xffffffff);
    case Algorithm::kCrc16Custom: return crc(data, externs_.crc[calculation], 16);
    case Algorithm::kCrc32Custom: return crc(data, externs_.crc[calculation], 32);
    case Algorithm::kCrcCcitt: return crc(data, {0x1021, 0xffff, 0, false, false}, 16);
    case Algorithm::kIdentity: return identity(data);
    case Algorithm::kRandom: return next_random(externs_.random_state);
  }
  return 0;
}

Cell Calculations::calculate(std::uint32_t index, const PacketState& packet) {
  const ChecksumPlan& plan = image_.checksum_plans[index];
  if (!plan.plain) return calculate_general(index, packet);
  for (std::uint32_t valid : plan.valid_cells) {
    if (packet.phv[valid] == 0) return calculate_general(index, packet);
  }
  std::uint64_t sum = 0;
  for (const PlannedKeyPart& term : plan.terms) sum += packet.phv[term.cell] << term.shift;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

Cell Calculations::calculate_general(std::uint32_t index, const PacketState& packet) {
  return apply(index, gather(index, packet));
}

Cell Calculations::ones_sum(std::uint32_t index, Cell sum, bool subtract,
                            const PacketState& packet) {
  const std::span<const std::byte> words = gather(index, packet);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const Cell word = read_bits(words.data(), i * 8, 16);
    sum += subtract ? ~word & 0xffff : word;
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

std::span<const std::byte> Calculations::gather(std::uint32_t index, const PacketState& packet) {
  const Calculation& calculation = image_.calculations[index];
  const Cell* phv = packet.phv;
  BitWriter writer(scratch_.data());
  for (const CalculationInput& input : calculation.inputs) {
    if (input.valid_cell != kNone && phv[input.valid_cell] == 0) continue;
    switch (input.kind) {
      case CalculationInput::Kind::kField: writer.put_wide(phv + input.cell, input.width); break;
      case CalculationInput::Kind::kVarbit:
        writer.put_wide(phv + input.cell + 1, static_cast<unsigned>(phv[input.cell]));
        break;
      case CalculationInput::Kind::kConstant:
        writer.put_wide(&image_.cell_constants[input.cell], input.width);
        break;
    }
  }
  writer.pad_to_byte();
  if (!calculation.with_payload) return {scratch_.data(), writer.bytes()};
  const auto payload = packet.frame().subspan(packet.cursor);
  std::copy(payload.begin(), payload.end(), writer.position());
  return {scratch_.data(), writer.bytes() + payload.size()};
}

}  // namespace tiercast::engine
