// A record as a line of JSON: {"time_ns":5,"kind":"join","rank":2}. Texts are escaped. A number
// that is not finite becomes null, because JSON has no infinity. The same values always give the
// same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiercast {

class JsonRow {
 public:
  // Begins a row, and reuses the memory of the previous one.
  void begin(std::int64_t time_ns);
  void text(std::string_view name, std::string_view value);
  // Whole numbers below 1e17 are written without an exponent, others in the shortest text that
  // represents them exactly.
  void number(std::string_view name, double value);
  // The row with its newline; valid until the next begin().
  std::string_view end();

 private:
  void quoted(std::string_view text);
  void name(std::string_view name);

  std::string line_;
};

}  // namespace tiercast
