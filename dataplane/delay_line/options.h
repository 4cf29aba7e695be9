// The command line of tiercast-delay-line.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tiercast::delay_line {

// A wrong argument: the text says where, the value seen and the valid choices.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LineOption {
  std::string a;
  std::string b;
  std::int64_t a_to_b_ns = 0;  // 0..60 s
  std::int64_t b_to_a_ns = 0;
};

// `A,B,DELAY` or `A,B,DELAY-FROM-A-TO-B,DELAY-FROM-B-TO-A`: "in1,eth1,5ms,0". OptionError.
LineOption parse_line(std::string_view text);

}  // namespace tiercast::delay_line
