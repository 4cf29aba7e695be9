// A trace of chosen packets as JSON lines (docs/switch.md, "A trace"). It is written on the
// data-plane thread, so traced packets may delay others.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/engine/control/trace.h"

namespace tiercast::vswitch {

// Which of the received frames to trace. An absent condition always holds.
struct TraceFilter {
  std::optional<std::uint32_t> port;      // the port that received the frame
  std::optional<std::uint16_t> udp_port;  // IPv4 and UDP, with this destination port
  std::uint32_t destination = 0;  // IPv4 destination in host order, compared under destination_mask
  std::uint32_t destination_mask = 0;  // 0: any frame, IPv4 or not
  bool matches(std::uint32_t received_on, std::span<const std::byte> frame) const;
};

// Parses "port=1,udp=5500,dst=239.192.0.8/29". A frame must meet all conditions. Throws
// OptionError.
TraceFilter parse_trace_filter(std::string_view text);
// "1/100" -> 100. Throws OptionError.
std::uint64_t parse_trace_sample(std::string_view text);

class TraceFile final : public engine::TraceSink {
 public:
  // path: "-" means standard output. one_in: trace every one_in-th of the frames that match,
  // starting with the first. Throws std::system_error, which names the file.
  TraceFile(const std::string& path, std::uint64_t one_in, const TraceFilter& filter);

  bool wants(std::uint32_t port, std::span<const std::byte> frame) override;
  void event(const engine::TraceEvent& event) override;
  // To be called after the last event. Returns whether all could be written; why not was logged
  // when it happened first.
  bool finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void check(bool written);

  const std::string path_;
  std::unique_ptr<std::FILE, Close> owned_;
  std::FILE* out_;
  const std::uint64_t one_in_;
  const TraceFilter filter_;
  std::uint64_t matched_ = 0;
  bool failed_ = false;
};

}  // namespace tiercast::vswitch
