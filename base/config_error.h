#pragma once

#include <stdexcept>

namespace tiercast {

// A user gave a wrong value, or a file that cannot be used. The text names the place, the value and
// the valid choices.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tiercast
