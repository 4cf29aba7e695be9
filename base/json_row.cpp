#include "base/json_row.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace tiercast {

void JsonRow::quoted(std::string_view text) {
  line_ += '"';
  std::size_t written = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_control = static_cast<unsigned char>(c) < 0x20;
    if (!is_control && c != '"' && c != '\\') continue;
    line_.append(text, written, i - written);
    written = i + 1;
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, is_control ? "\\u%04x" : "\\%c", c);
    line_ += escaped;
  }
  line_.append(text, written, text.npos);
  line_ += '"';
}

void JsonRow::name(std::string_view name) {
  line_ += ',';
  quoted(name);
  line_ += ':';
}

void JsonRow::begin(std::int64_t time_ns) {
  char digits[24];
  line_.assign("{\"time_ns\":");
  line_.append(digits, std::to_chars(digits, digits + sizeof digits, time_ns).ptr);
}

void JsonRow::text(std::string_view of, std::string_view value) {
  name(of);
  quoted(value);
}

void JsonRow::number(std::string_view of, double value) {
  name(of);
  if (!std::isfinite(value)) {
    line_.append("null");
    return;
  }
  char text[32];
  // Most figures are counts. A whole number has no exponent here, whose text may be shorter.
  constexpr double kWhole = 1e17;
  const bool is_whole =
      value == std::trunc(value) && std::abs(value) < kWhole && !std::signbit(value);
  char* const end = text + sizeof text;
  line_.append(text, is_whole ? std::to_chars(text, end, static_cast<std::int64_t>(value)).ptr
                              : std::to_chars(text, end, value).ptr);
}

std::string_view JsonRow::end() {
  line_.append("}\n");
  return line_;
}

}  // namespace tiercast
