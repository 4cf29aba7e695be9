// Rows about sampled packets at traced ports: what each found there, how long it waited, what
// became of it, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/engine/control/trace.h"
#include "dataplane/trace/sampled_packet.h"

namespace tiercast::trace {

struct TracedPort {
  double share = 1;                    // of the packets, above 0, to 1
  std::vector<std::string> registers;  // whose values the rows have
};

// A packet at a port. Times in ns, on the clock of the switch.
struct Hop {
  std::uint32_t port = 0;
  SampledPacket packet;
  std::int64_t arrival_ns = 0;      // handed to the port's queue
  std::uint32_t found_packets = 0;  // waiting, the one in service not counted
  std::uint64_t found_bytes = 0;
  std::optional<std::uint32_t> left_packets;  // that waited when its service began
  std::optional<std::int64_t> wait_ns;        // until its service began, or egress dropped it
  std::optional<std::int64_t> transit_ns;     // until its last bit was at the other end
  std::string fate;  // passed, marked, dropped (by the program, or RED on arrival), full, lost
  std::string by;    // the action, with its place in the source, or the part of the switch
  std::vector<std::string> lines;  // of the program, that decided; of the switch, its reason
  std::vector<std::optional<double>> registers;  // in the order of TracedPort::registers
  std::optional<double> red_average;             // packets, of RED on arrival
};

class HopTrace : public engine::TraceSink {
 public:
  // most_held: rows and packets at ports that are kept until take() is called; meanwhile no further
  // packet is traced. Ports not among `ports` are not traced.
  HopTrace(std::map<std::uint32_t, TracedPort> ports, std::size_t most_held);

  bool wants(std::uint32_t port, std::span<const std::byte> frame) override;
  bool wants_steps() const override { return false; }
  void event(const engine::TraceEvent& event) override;

  // The rows of the packets that have left since the last call, in that order.
  std::vector<Hop> take();
  // Packets that would have been sampled, but too many were held.
  std::uint64_t skipped() const { return skipped_; }
  const std::map<std::uint32_t, TracedPort>& ports() const { return ports_; }

 private:
  struct Sampled {
    SampledPacket packet;
    std::uint64_t hash = 0;
    std::string fate, by;            // of a decision at ingress; empty: none
    std::vector<std::string> lines;  // of it
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // packet, copy

  void decided(const engine::TraceEvent& event, const Key& key);
  void dropped(const engine::TraceEvent& event, Hop& hop);
  void finish(const Key& key);
  void lose_all();
  Sampled* sampled(std::uint64_t packet);

  const std::map<std::uint32_t, TracedPort> ports_;
  std::map<std::uint32_t, std::uint64_t> limits_;  // of hashes, by port
  std::uint64_t limit_ = 0;                        // of any port
  const std::size_t most_held_;
  Sampled next_;                 // wanted, not yet numbered
  std::deque<Sampled> sampled_;  // by number, from first_ on
  std::uint64_t first_ = 1;
  std::map<Key, Hop> open_;
  std::vector<Hop> rows_;
  std::uint64_t skipped_ = 0;
};

}  // namespace tiercast::trace
