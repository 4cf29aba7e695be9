// Accounts for everything that one port receives, and is the host behind it: joins groups, answers
// queries, ARP and echo requests.
//
// Each received frame has exactly one fate. One thread calls everything; others may read the fates
// and the streams.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/counter.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/responder.h"
#include "dataplane/dpdk/tsc_clock.h"
#include "dataplane/dpdk/vlan.h"
#include "dataplane/receiver/igmp/igmp_host.h"
#include "dataplane/receiver/port/capture.h"
#include "dataplane/receiver/port/device_clock.h"
#include "dataplane/streams/stream_table.h"

namespace tiercast::receiver {

enum class Fate : std::uint8_t {
  kData,       // accounted for in a stream
  kControl,    // from a sender to a group, but no data: reports, probes
  kQuery,      // of IGMP
  kAnswered,   // ARP and echo requests
  kForeign,    // valid, but of no group or stream here; other protocols
  kMalformed,  // wrong length, checksum or header; in several segments
  kNoRoom,     // of a new stream, for which there was no room
};
inline constexpr std::size_t kFates = 7;
const char* name(Fate fate);  // "data", "control", "igmp_query", ...

// What a host asks for. `source` (host order): 0: any.
struct Subscription {
  std::uint32_t group = 0;
  std::uint32_t source = 0;
};

class PortAnalyser {
 public:
  struct Settings {
    dpdk::OwnAddress own;
    int igmp_version = 3;
    std::vector<Subscription> join;  // at start()
    bool any = false;                // also accounts for groups that nobody joined
    std::optional<dpdk::Vlan> vlan;  // of all frames; those of others are foreign
    std::uint32_t streams = 1024;    // room for so many
    // Whether frames of this group go into the capture.
    std::function<bool(std::uint32_t group)> captured;
    Capture* capture = nullptr;           // nullptr: none
    std::uint32_t memberships = 0;        // room for so many at a time, beside `join`
    std::mutex* transmit_lock = nullptr;  // held while it sends; nullptr: nobody else sends
  };
  // `port` and the capture must outlive the object. ConfigError: no memory.
  PortAnalyser(Settings settings, dpdk::Port& port);

  void start(Time now);
  // Takes a burst, and sends what is due. Returns how many frames it took.
  unsigned poll(const dpdk::TscClock& clock);
  void leave_all(Time now);
  // False: there is no room.
  bool join(Time now, const Subscription& one) { return igmp_.join(now, one.group, one.source); }
  void leave(Time now, const Subscription& one) { igmp_.leave(now, one.group, one.source); }
  // Forgets all streams; from now on accounts for this trial's test frames alone, and other frames
  // are foreign. No other thread may read the streams meanwhile.
  void begin_trial(std::uint16_t trial);
  void sync_clock(Time now) { device_clock_.sync(now); }
  Time next_deadline() const { return igmp_.next_deadline(); }

  const dpdk::Port& port() const { return port_; }
  const streams::StreamTable& streams() const { return table_; }
  std::uint64_t fate(Fate fate) const { return fates_[static_cast<std::size_t>(fate)].get(); }
  std::uint64_t received() const { return received_.get(); }
  std::uint64_t bytes() const { return bytes_.get(); }  // of frames, without FCS
  std::uint64_t igmp_sent() const { return igmp_sent_.get(); }
  bool stamped_by_device() const { return device_clock_.on(); }
  Histogram latency() const { return latency_.read(); }  // of all stamped data

 private:
  struct Parsed {
    streams::Reading reading = streams::Reading::kOther;
    bool foreign = false;  // of another VLAN
    std::uint32_t stream = streams::StreamTable::kNone;
    std::int64_t arrival_ns = 0;
    streams::DataFrame frame;
  };

  std::uint32_t new_stream(const streams::DataFrame& frame, bool& wanted);
  Fate other(Time now, rte_mbuf*& mbuf);
  void send_igmp(Time now);
  bool send(std::span<const std::byte> frame);
  bool transmit(rte_mbuf* mbuf);

  Settings settings_;
  dpdk::Port& port_;
  streams::StreamTable table_;
  IgmpHost igmp_;
  DeviceClock device_clock_;
  std::vector<std::uint32_t> groups_;     // joined for any source; sorted
  std::vector<std::uint8_t> to_capture_;  // by stream
  std::array<rte_mbuf*, dpdk::Port::kBurst> burst_{};
  std::array<Parsed, dpdk::Port::kBurst> parsed_{};
  int trial_ = -1;  // -1: all frames
  std::array<Counter, kFates> fates_;
  Counter received_, bytes_, igmp_sent_;
  SharedHistogram latency_;
};

}  // namespace tiercast::receiver
