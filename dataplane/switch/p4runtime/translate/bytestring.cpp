#include "dataplane/switch/p4runtime/translate/bytestring.h"

#include <fmt/format.h>

#include <bit>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

std::uint8_t at(std::string_view bytes, std::size_t index) {
  return static_cast<std::uint8_t>(bytes[index]);
}

}  // namespace

std::string canonical(std::string_view bytes, unsigned width, std::string_view what) {
  if (bytes.empty())
    throw RequestError(grpc::OUT_OF_RANGE, fmt::format("{}: the byte string is empty", what));
  const std::size_t zeros = std::min(bytes.find_first_not_of('\0'), bytes.size() - 1);
  const std::string_view value = bytes.substr(zeros);
  const std::size_t bits =
      (value.size() - 1) * 8 + static_cast<std::size_t>(std::bit_width(at(value, 0)));
  if (bits > width) {
    std::string hex;
    for (std::size_t i = 0; i < bytes.size(); ++i) hex += fmt::format("{:02x}", at(bytes, i));
    throw RequestError(grpc::OUT_OF_RANGE,
                       fmt::format("{}: 0x{} does not fit bit<{}>", what, hex, width));
  }
  return std::string(value);
}

std::string canonical_int(std::string_view bytes, unsigned width) {
  std::string value((width + 7) / 8, '\0');
  const std::size_t given = std::min(bytes.size(), value.size());
  value.replace(value.size() - given, given, bytes.substr(bytes.size() - given));
  const unsigned sign_bit = (width - 1) % 8;
  const bool negative = (at(value, 0) >> sign_bit & 1) != 0;
  if (negative) value[0] = static_cast<char>(at(value, 0) | 0xff << sign_bit);
  // A byte goes if the next one begins with the sign, too.
  const std::uint8_t extension = negative ? 0xff : 0;
  std::size_t superfluous = 0;
  while (superfluous + 1 < value.size() && at(value, superfluous) == extension &&
         at(value, superfluous + 1) >> 7 == extension >> 7) {
    ++superfluous;
  }
  return value.substr(superfluous);
}

unsigned trailing_zeros(std::string_view bytes, unsigned width) {
  unsigned zeros = 0;
  for (std::size_t i = bytes.size(); i-- > 0; zeros += 8) {
    if (at(bytes, i) != 0) return zeros + static_cast<unsigned>(std::countr_zero(at(bytes, i)));
  }
  return width;
}

std::string prefix_mask(unsigned prefix_length, unsigned width) {
  std::string mask((width + 7) / 8, '\0');
  for (unsigned bit = width - prefix_length; bit < width; ++bit) {
    char& byte = mask[mask.size() - 1 - bit / 8];
    byte = static_cast<char>(byte | 1 << bit % 8);
  }
  return mask;
}

bool masked_by(std::string_view value, std::string_view mask) {
  for (std::size_t i = 0; i < value.size(); ++i) {  // i counts from the last byte
    const std::uint8_t v = at(value, value.size() - 1 - i);
    const std::uint8_t m = i < mask.size() ? at(mask, mask.size() - 1 - i) : 0;
    if ((v & m) != v) return false;
  }
  return true;
}

std::string encode_uint(std::uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    const auto byte = static_cast<char>(value >> shift & 0xff);
    if (byte != 0 || !bytes.empty() || shift == 0) bytes.push_back(byte);
  }
  return bytes;
}

std::uint64_t decode_uint(std::string_view bytes, unsigned width, std::string_view what) {
  std::uint64_t value = 0;
  for (const char byte : canonical(bytes, width, what))
    value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

}  // namespace tiercast::vswitch
