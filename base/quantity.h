// Quantities as people write them: a decimal number and a unit, "6Mbit/s", "5ms", "50p/30000B".
// Nothing is returned for any other text, a negative number or one that is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiercast {

// What the readers accept, for messages.
inline constexpr std::string_view kRateForms = "6Mbit/s, 300kbit/s, 1.5Gbit/s, 800bit/s or 2500B/s";
inline constexpr std::string_view kDurationForms = "5ms, 1.5s, 200us or 30ns";
inline constexpr std::string_view kQueueForms = "50p, 30000B or 50p/30000B";

std::optional<double> read_rate(std::string_view text);      // bit/s
std::optional<double> read_duration(std::string_view text);  // ns

// A queue's bounds; what the text does not name is absent.
struct QueueBounds {
  std::optional<std::uint32_t> packets;
  std::optional<std::uint64_t> bytes;
};
std::optional<QueueBounds> read_queue(std::string_view text);

}  // namespace tiercast
