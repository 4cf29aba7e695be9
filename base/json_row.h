// One record as a line of JSON: {"time_ns":5,"kind":"join","rank":2}. Texts are escaped; a number
// that is not finite is null, for JSON has no infinity. The same values give the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tiercast {

class JsonRow {
 public:
  // Begins a row, in the memory of the one before.
  void begin(std::int64_t time_ns);
  void text(std::string_view name, std::string_view value);
  // Whole numbers below 1e15 without exponent; others with 17 digits, which say them exactly.
  void number(std::string_view name, double value);
  // The row with its line's end; valid until the next begin().
  std::string_view end();

 private:
  void quoted(std::string_view text);
  void name(std::string_view name);

  std::string line_;
};

}  // namespace tiercast
