// Reads quantities as people write them, a decimal number and a unit: "6Mbit/s", "5ms",
// "50p/30000B". The result is empty for any other text and for a number that is negative or not
// finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiercast {

// The forms that are accepted, for messages.
inline constexpr std::string_view kRateForms = "6Mbit/s, 300kbit/s, 1.5Gbit/s, 800bit/s or 2500B/s";
inline constexpr std::string_view kDurationForms = "5ms, 1.5s, 200us or 30ns";
inline constexpr std::string_view kQueueForms = "50p, 30000B or 50p/30000B";

std::optional<double> read_rate(std::string_view text);      // bit/s
std::optional<double> read_duration(std::string_view text);  // ns

// The bounds of a queue. A bound that the text does not name is absent.
struct QueueBounds {
  std::optional<std::uint32_t> packets;
  std::optional<std::uint64_t> bytes;
};
std::optional<QueueBounds> read_queue(std::string_view text);

}  // namespace tiercast
