// Figures for people to read at a glance, and a table that is redrawn in place.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace tiercast::dpdk {

std::string short_number(double value);            // three significant digits: "14.9 M"
std::string short_time(std::int64_t nanoseconds);  // "12.3 us"

// A text on the terminal that replaces the one before it.
class RedrawnText {
 public:
  void show(const std::string& text, std::FILE* terminal);

 private:
  unsigned lines_ = 0;  // of the last text
};

}  // namespace tiercast::dpdk
