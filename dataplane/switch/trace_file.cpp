#include "dataplane/switch/trace_file.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "dataplane/switch/options.h"

namespace tiercast::vswitch {
namespace {

constexpr const char* kFilterForm =
    "port=NUMBER, udp=PORT, dst=ADDRESS[/BITS], several with commas";

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t low,
                                          std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value < low || value > high ? std::nullopt : std::optional(value);
}

void parse_destination(std::string_view text, TraceFilter& filter) {
  const auto slash = text.find('/');
  in_addr address{};
  const std::string dotted(text.substr(0, slash));
  const auto bits = slash == std::string_view::npos ? std::optional<std::uint64_t>(32)
                                                    : parse_number(text.substr(slash + 1), 1, 32);
  if (::inet_pton(AF_INET, dotted.c_str(), &address) != 1 || !bits)
    throw OptionError(
        fmt::format("'{}' is not an address, or address/bits with 1 to 32 bits", text));
  filter.destination_mask = ~std::uint32_t{0} << (32 - *bits);
  filter.destination = ntohl(address.s_addr) & filter.destination_mask;
}

std::uint32_t number_at(std::span<const std::byte> frame, std::size_t offset, unsigned bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(frame[offset + i]);
  return value;
}

}  // namespace

bool TraceFilter::matches(std::uint32_t received_on, std::span<const std::byte> frame) const {
  if (port && *port != received_on) return false;
  if (destination_mask == 0 && !udp_port) return true;
  constexpr std::size_t kIp = 14, kMinimum = 20;
  if (frame.size() < kIp + kMinimum || number_at(frame, 12, 2) != 0x0800) return false;
  if ((number_at(frame, kIp + 16, 4) & destination_mask) != destination) return false;
  if (!udp_port) return true;
  const std::size_t udp = kIp + (number_at(frame, kIp, 1) & 0xf) * std::size_t{4};
  return number_at(frame, kIp + 9, 1) == IPPROTO_UDP && frame.size() >= udp + 4 &&
         number_at(frame, udp + 2, 2) == *udp_port;
}

TraceFilter parse_trace_filter(std::string_view text) {
  TraceFilter filter;
  std::set<std::string_view> seen;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    const auto wrong = [&](std::string_view why) {
      return OptionError(fmt::format("--trace-filter '{}': {}; valid: {}", part, why, kFilterForm));
    };
    if (!seen.insert(key).second) throw wrong("given twice");
    if (key == "dst") {
      try {
        parse_destination(value, filter);
      } catch (const OptionError& error) {
        throw wrong(error.what());
      }
    } else if (key == "udp") {
      const auto number = parse_number(value, 0, 0xffff);
      if (!number) throw wrong("not a number from 0 to 65535");
      filter.udp_port = static_cast<std::uint16_t>(*number);
    } else if (key == "port") {
      const auto number = parse_number(value, 1, 510);
      if (!number) throw wrong("not a number from 1 to 510");
      filter.port = static_cast<std::uint32_t>(*number);
    } else {
      throw wrong("unknown");
    }
    if (comma == std::string_view::npos) return filter;
    rest.remove_prefix(comma + 1);
  }
}

std::uint64_t parse_trace_sample(std::string_view text) {
  const auto one_in =
      text.starts_with("1/") ? parse_number(text.substr(2), 1, 1'000'000'000) : std::nullopt;
  if (!one_in)
    throw OptionError(
        fmt::format("--trace-sample '{}': valid: 1/N with N from 1 to 1000000000", text));
  return *one_in;
}

TraceFile::TraceFile(const std::string& path, std::uint64_t one_in, const TraceFilter& filter)
    : path_(path),
      owned_(path == "-" ? nullptr : std::fopen(path.c_str(), "we")),
      out_(path == "-" ? stdout : owned_.get()),
      one_in_(one_in),
      filter_(filter) {
  if (out_ == nullptr) throw std::system_error(errno, std::generic_category(), "--trace " + path);
}

bool TraceFile::wants(std::uint32_t port, std::span<const std::byte> frame) {
  return filter_.matches(port, frame) && matched_++ % one_in_ == 0;
}

void TraceFile::event(const engine::TraceEvent& event) {
  const std::string line = engine::to_json(event) + "\n";
  check(std::fwrite(line.data(), 1, line.size(), out_) == line.size());
  // So that a reader that follows the file sees the end of a packet at once.
  if (event.kind == "transmit" || event.kind == "drop" || event.kind == "packet_in")
    check(std::fflush(out_) == 0);
}

bool TraceFile::finish() {
  check(std::fflush(out_) == 0);
  return !failed_;
}

// Packets pass on all the same.
void TraceFile::check(bool written) {
  if (written || std::exchange(failed_, true)) return;
  spdlog::error("--trace {}: {}; lines are missing in it", path_, std::strerror(errno));
}

}  // namespace tiercast::vswitch
