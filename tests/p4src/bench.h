// A switch in virtual time that runs p4src/compiled/tiercast.json, for tests of that program.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "tests/p4src/packet.h"

namespace tiercast::p4test {

inline constexpr std::uint32_t kCpuPort = 510;
inline constexpr std::int64_t kMicrosecond = 1000;
inline constexpr std::int64_t kMillisecond = 1000 * kMicrosecond;
inline constexpr std::int64_t kNsPerByte = 1000;  // at 8 Mbit/s
inline constexpr double kOne = 4294967296.0;      // a probability of 1 in a register
// Where tests have not more ports to tell apart:
inline constexpr std::uint32_t kUp = 1;    // towards the sender
inline constexpr std::uint32_t kPort = 2;  // whose queue is tested

using Ports = std::vector<std::uint32_t>;

struct Sent {
  std::uint32_t port;
  Frame frame;
  std::int64_t due_ns;
};

// The action data of an entry in `aggregator`.
struct Aggregator {
  std::uint32_t slot = 5;
  std::uint32_t id = 1001;
  std::uint32_t address = 0x0a090909;  // 10.9.9.9
  std::uint32_t parent = 0x0a000002;   // 10.0.0.2
  std::uint64_t mac = 0x0200000000aa;
  std::uint32_t upstream_port = 1;
};

// RED's parameters in ordinary units; red() makes table values from them.
struct RedParameters {
  double min_th = 5, max_th = 15;  // packets
  double max_p = 0.1;
  bool gentle = false;
  bool ecn = true, mark_above_max = false, wait = false;
  std::uint32_t limit = 0;  // packets; 0: no limit
  double link_bps = 8e6;
  double mean_packet = 500;      // bytes, of the packets that an idle time could have sent
  double typical_packet = 1000;  // bytes

  std::uint32_t idle_rate() const;  // 19 fraction bits
  std::uint32_t transmission_us() const;

  friend void PrintTo(const RedParameters& r, std::ostream* out) {
    *out << "min_th " << r.min_th << ", max_th " << r.max_th << ", max_p " << r.max_p
         << (r.gentle ? ", gentle" : "") << (r.ecn ? ", ecn" : "") << (r.wait ? ", wait" : "")
         << (r.mark_above_max ? ", mark_above_max" : "");
  }
};

// CoDel's, in microseconds.
struct CodelParameters {
  std::uint32_t target_us = 5000, interval_us = 100'000;
  bool ecn = false;
};

// PIE's and PI2's. alpha and beta: probability for each second of delay, alpha in a period of the
// program.
struct PiParameters {
  static constexpr double kPeriod = 0.016384;  // s
  double target = 0.015;                       // s
  double alpha = 0.125, beta = 1.25;
  double burst = 0.15;    // s, of PIE
  double mark_below = 0;  // probability, of PIE
  bool spread = false;    // of PIE
  bool ecn = false;       // of PI2
};

// DualPI2's, besides `pi`, whose defaults are PIE's.
struct DualPi2Parameters {
  PiParameters pi = {.alpha = 0.16, .beta = 3.2};
  double coupling = 2;
  std::uint32_t ramp_us = 800, range_us = 400;
  std::uint32_t ramp_depth = 1;  // packets
};

// The rows of ingress_fates (docs/p4.md, "Fates").
enum class IngressFate : std::uint32_t {
  kForwarded,
  kInvalid,
  kExpired,
  kNoGroup,
  kNoRoute,
  kToController,
  kAggregated,
  kFromController,
  kRefused,
  kPoliced
};
inline constexpr std::uint32_t kIngressFates = 10;

// A column of egress_fates: packets.
struct EgressFates {
  std::uint64_t left = 0;  // including those marked here
  std::uint64_t marked = 0;
  std::uint64_t dropped = 0;
  std::uint64_t pruned = 0;
  bool operator==(const EgressFates&) const = default;
};

// Ports 1 to 4 are unlimited unless limit() says otherwise. IP bytes count, without Ethernet.
class Bench : public engine::Output {
 public:
  explicit Bench(std::uint64_t seed = 1);  // of the switch's random numbers

  // Entries. Thresholds are in packets with 8 fraction bits. The test fails if the switch refuses a
  // call.
  void host(std::string_view to, std::uint32_t port, std::uint64_t mac);
  void prefix(std::string_view to, unsigned length, std::uint32_t port, std::uint64_t mac);
  void drop_prefix(std::string_view to, unsigned length);
  // `count` next hops from `first` on, among which hashes times `multiplier` choose.
  void spread(std::string_view to, unsigned length, std::uint32_t first, std::uint32_t count,
              std::uint32_t multiplier);
  void next_hop(std::uint32_t place, std::uint32_t port, std::uint64_t mac);
  void no_next_hop(std::uint32_t place);
  void subscribe(std::uint32_t group_address, std::uint32_t mgid, std::vector<std::uint32_t> ports);
  // As subscribe(), with packets of `source` through one of two ports alone.
  void subscribe_from(std::uint32_t group_address, std::uint32_t mgid,
                      std::vector<std::uint32_t> ports, std::string_view source, std::uint32_t port,
                      std::uint32_t former_port);
  // The port sends from this address alone.
  void guard(std::uint32_t port, std::string_view address);
  // IGMP of a port: packets a second, and how many of them at once.
  void limit_igmp(std::uint32_t port, std::uint32_t rate, std::uint32_t burst);
  void top_group(std::uint32_t port, std::uint32_t session, std::uint32_t rank);
  void no_top_group(std::uint32_t port, std::uint32_t session);
  void marking(std::uint32_t port, std::uint32_t threshold, std::uint32_t idle_us = 0);
  void no_marking(std::uint32_t port);
  void red(std::uint32_t port, const RedParameters& parameters);
  void codel(std::uint32_t port, const CodelParameters& parameters);
  void pie(std::uint32_t port, const PiParameters& parameters);
  void pi2(std::uint32_t port, const PiParameters& parameters);
  void dualpi2(std::uint32_t port, const DualPi2Parameters& parameters);
  // ECT(1) and CE have priority 1.
  void queue_classes();
  void threshold_marking(std::uint32_t port, std::uint32_t packets);
  void drop_tail(std::uint32_t port, std::uint32_t packets);
  void aggregate(std::uint32_t session, const Aggregator& aggregator);
  void no_aggregate(std::uint32_t session);
  // first: the column of egress_fates that the group has at port 0.
  void group_columns(std::uint32_t group_address, std::uint32_t first);
  void limit(std::uint32_t port, double rate_bps, std::uint32_t queue_packets);
  void two_queues(std::uint32_t port, double rate_bps, double low_share);

  // A frame arrives on a port, at now().
  void receive(std::uint32_t port, const Frame& frame);
  void receive(std::uint32_t port, const Packet& packet) { receive(port, packet.bytes()); }
  // Time passes.
  void advance_to(std::int64_t time_ns);
  void advance(std::int64_t duration_ns) { advance_to(now_ns_ + duration_ns); }
  // Until nothing waits any more.
  void finish();
  std::int64_t now() const { return now_ns_; }

  // Frames that left, in the order in which they did; since the last clear().
  const std::vector<Sent>& sent() const { return sent_; }
  std::vector<Frame> sent_on(std::uint32_t port) const;
  // The ports from which frames have left, in ascending order, each once per frame.
  std::vector<std::uint32_t> ports_used() const;
  // Frames sent to the controller, with their packet_in header.
  const std::vector<Frame>& punted() const { return punted_; }
  void clear();

  engine::CounterValue counter(std::string_view name, std::uint32_t index) const;
  // Counts of packets.
  std::uint64_t ingress(std::uint32_t port, IngressFate fate) const;
  EgressFates egress(std::uint32_t column) const;
  std::uint64_t entered_port(std::uint32_t port) const;  // packets handed to this port's queue as
                                                         // unicast
  std::uint64_t entered_group(std::uint32_t mgid) const;
  std::uint32_t avg_queue(std::uint32_t port) const;                     // packets, 8 fraction bits
  std::uint64_t cell(std::string_view name, std::uint64_t index) const;  // of a register
  void set_cell(std::string_view name, std::uint64_t index, std::uint32_t value);
  // Sets the program anew, without an entry.
  void reload();
  engine::Switch& engine_switch() { return *switch_; }
  const engine::Switch& engine_switch() const { return *switch_; }

  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t due_ns) override;
  void packet_in(std::span<const std::byte> frame) override;

 private:
  std::unique_ptr<engine::Switch> switch_;
  std::int64_t now_ns_ = 0;
  std::vector<Sent> sent_;
  std::vector<Frame> punted_;
};

class SwitchTest : public ::testing::Test {
 protected:
  Bench bench;
};

}  // namespace tiercast::p4test
