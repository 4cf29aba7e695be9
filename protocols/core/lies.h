// Lies that members of a session tell in experiments (docs/security.md, "Members that lie"). An
// honest core runs; a lie changes what it says before it is sent (driver/lying_receiver.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocols/wire/wire.h"

namespace tiercast {

struct Lie {
  static constexpr std::size_t kMaxBytes = 1024;  // of feedback; longer feedback is not changed
  // What liars say in fields of 32 bits: a rate, or a loss, as high as can be.
  static constexpr std::uint32_t kMost = 0xffffffff;
  static constexpr std::uint32_t kAhead = 16;  // packets acknowledged that have not arrived

  std::string_view name;   // the same in all schemes: "rate_zero"
  std::string_view means;  // one line
  // Writes what is said instead of `honest`, the core's feedback, to `out`, which has kMaxBytes.
  // Returns its length; 0: nothing is sent.
  std::size_t (*retell)(std::span<const std::byte> honest, std::span<std::byte> out) = nullptr;
};

// For feedback of the type `Message`: what `change` makes of it. Other feedback stays as it is.
template <class Message, class Change>
std::size_t retold(std::span<const std::byte> honest, std::span<std::byte> out, Change change) {
  Message message;
  if (parse(honest, message) != wire::Error::kOk) {
    std::ranges::copy(honest, out.begin());
    return honest.size();
  }
  change(message);
  return write(message, out);
}

}  // namespace tiercast
