#include "dataplane/receiver/port/port_analyser.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/clock.h"
#include "base/thread_sanitizer.h"

namespace tiercast::receiver {
namespace {

using streams::Reading;
using streams::StreamTable;

}  // namespace

const char* name(Fate fate) {
  static constexpr std::array<const char*, kFates> kNames{
      "data", "control", "igmp_query", "answered", "foreign", "malformed", "no_room"};
  return kNames[static_cast<std::size_t>(fate)];
}

PortAnalyser::PortAnalyser(Settings settings, dpdk::Port& port)
    : settings_(std::move(settings)),
      port_(port),
      table_(settings_.streams),
      igmp_(settings_.own, settings_.igmp_version,
            static_cast<std::uint32_t>(settings_.join.size()) + settings_.memberships,
            static_cast<std::uint64_t>(agent::monotonic_now().ns())),
      to_capture_(settings_.streams) {
  if (port.stamps()) {
    device_clock_ = DeviceClock([&port](std::uint64_t& ticks) { return port.read_clock(ticks); },
                                agent::monotonic_now);
  }
  for (const Subscription& one : settings_.join) {
    if (one.source == 0) {
      groups_.push_back(one.group);
    } else if (table_.find(one.group, one.source) == StreamTable::kNone) {
      bool wanted = true;
      streams::DataFrame frame;
      frame.group = one.group;
      frame.source = one.source;
      groups_.push_back(one.group);
      new_stream(frame, wanted);
      groups_.pop_back();
    }
  }
  std::sort(groups_.begin(), groups_.end());
}

void PortAnalyser::start(Time now) {
  for (const Subscription& one : settings_.join) igmp_.join(now, one.group, one.source);
}

void PortAnalyser::leave_all(Time now) { igmp_.leave_all(now); }

void PortAnalyser::begin_trial(std::uint16_t trial) {
  trial_ = trial;
  table_.clear();
}

std::uint32_t PortAnalyser::new_stream(const streams::DataFrame& frame, bool& wanted) {
  wanted = settings_.any || frame.group == settings_.own.ip ||
           std::binary_search(groups_.begin(), groups_.end(), frame.group);
  if (!wanted) return StreamTable::kNone;
  const std::uint32_t index = table_.add(frame.group, frame.source);
  if (index != StreamTable::kNone && settings_.capture != nullptr) {
    to_capture_[index] = settings_.captured(frame.group) ? 1 : 0;
  }
  return index;
}

unsigned PortAnalyser::poll(const dpdk::TscClock& clock) {
  if (const Time due = igmp_.next_deadline(); !due.is_never()) [[unlikely]] {
    if (const Time now = clock.now(); now >= due) send_igmp(now);
  }
  const unsigned count = port_.receive_burst(burst_);
  if (count == 0) return 0;
  const Time now = clock.now();
  for (unsigned i = 0; i < count; ++i) {
    __builtin_prefetch(rte_pktmbuf_mtod(burst_[i], const void*));
  }
  // Each pass asks the cache for what the next one needs.
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* const mbuf = burst_[i];
    Parsed& one = parsed_[i];
    one.foreign = false;
    one.arrival_ns = now.ns();
    if (std::uint64_t ticks = 0; device_clock_.on() && port_.stamp(*mbuf, ticks)) {
      one.arrival_ns = device_clock_.time_of(ticks).ns();
    }
    bytes += rte_pktmbuf_pkt_len(mbuf);
    if (mbuf->nb_segs != 1) [[unlikely]] {
      one.reading = Reading::kMalformed;
    } else if (settings_.vlan && !dpdk::remove_tag(*settings_.vlan, mbuf)) [[unlikely]] {
      one.reading = Reading::kOther;
      one.foreign = true;
    } else {
      one.reading = streams::read_data_frame(
          {rte_pktmbuf_mtod(mbuf, const std::byte*), rte_pktmbuf_data_len(mbuf)}, one.arrival_ns,
          one.frame);
    }
    if (trial_ >= 0 && one.reading <= Reading::kTest &&
        (one.reading != Reading::kTest || one.frame.trial != trial_)) [[unlikely]] {
      one.reading = Reading::kOther;
    }
    if (one.reading <= Reading::kTest) table_.prefetch_slot(one.frame.group, one.frame.source);
  }
  for (unsigned i = 0; i < count; ++i) {
    Parsed& one = parsed_[i];
    one.stream = StreamTable::kNone;
    if (one.reading > Reading::kTest) continue;
    one.stream = table_.find(one.frame.group, one.frame.source);
    if (one.stream != StreamTable::kNone) table_.prefetch_stream(one.stream);
  }
  std::uint64_t data = 0;
  unsigned keep = 0;  // burst_[0 .. keep) are to be freed
  for (unsigned i = 0; i < count; ++i) {
    Parsed& one = parsed_[i];
    rte_mbuf* mbuf = burst_[i];
    Fate fate = Fate::kData;
    if (one.reading <= Reading::kTest) {
      bool wanted = true;
      if (one.stream == StreamTable::kNone) [[unlikely]] {
        // An earlier frame of the burst may have begun it.
        one.stream = table_.find(one.frame.group, one.frame.source);
        if (one.stream == StreamTable::kNone) one.stream = new_stream(one.frame, wanted);
      }
      if (one.stream == StreamTable::kNone) {
        fate = wanted ? Fate::kNoRoom : Fate::kForeign;
      } else {
        table_.account(one.stream, one.frame, one.arrival_ns);
        if (one.frame.stamped) latency_.add(one.frame.latency_ns);
        if (settings_.capture != nullptr && to_capture_[one.stream] != 0 &&
            settings_.capture->take(mbuf, one.arrival_ns)) {
          mbuf = nullptr;
        }
        ++data;
        if (mbuf != nullptr) burst_[keep++] = mbuf;
        continue;
      }
    } else if (one.reading == Reading::kControl) {
      fate = Fate::kControl;
    } else if (one.reading == Reading::kMalformed) {
      fate = Fate::kMalformed;
    } else if (one.foreign) {
      fate = Fate::kForeign;
    } else {
      fate = other(now, mbuf);
    }
    fates_[static_cast<std::size_t>(fate)].add();
    if (mbuf != nullptr) burst_[keep++] = mbuf;
  }
  for (unsigned i = 0; i < keep; ++i) hand_over(burst_[i]);  // to who allocates it next
  rte_pktmbuf_free_bulk(burst_.data(), keep);
  received_.add(count);
  bytes_.add(bytes);
  fates_[static_cast<std::size_t>(Fate::kData)].add(data);
  return count;
}

Fate PortAnalyser::other(Time now, rte_mbuf*& mbuf) {
  const std::span<std::byte> frame(rte_pktmbuf_mtod(mbuf, std::byte*), rte_pktmbuf_data_len(mbuf));
  if (const auto reply = dpdk::answer(settings_.own, frame); !reply.empty()) {
    rte_pktmbuf_trim(mbuf, static_cast<std::uint16_t>(frame.size() - reply.size()));
    if (transmit(mbuf)) mbuf = nullptr;
    return Fate::kAnswered;
  }
  wire::UdpPacket packet;
  if (wire::parse_udp_frame(frame, packet) != wire::FrameError::kNotUdp) return Fate::kForeign;
  switch (dpdk::igmp_kind(frame)) {
    case dpdk::Igmp::kQuery: igmp_.query(now, frame); return Fate::kQuery;
    case dpdk::Igmp::kMalformed: return Fate::kMalformed;
    case dpdk::Igmp::kOther: igmp_.report(frame); return Fate::kForeign;
    case dpdk::Igmp::kNone: break;
  }
  return Fate::kForeign;
}

void PortAnalyser::send_igmp(Time now) {
  for (auto frame = igmp_.next_frame(now); !frame.empty(); frame = igmp_.next_frame(now)) {
    if (send(frame)) igmp_sent_.add();
  }
}

bool PortAnalyser::transmit(rte_mbuf* mbuf) {
  if (settings_.vlan && !dpdk::insert_tag(*settings_.vlan, mbuf)) return false;
  const auto lock = settings_.transmit_lock != nullptr ? std::unique_lock(*settings_.transmit_lock)
                                                       : std::unique_lock<std::mutex>();
  return port_.transmit_burst(0, &mbuf, 1) == 1;
}

bool PortAnalyser::send(std::span<const std::byte> frame) {
  rte_mbuf* mbuf = port_.allocate_buffer();
  if (mbuf == nullptr) return false;
  char* const room = rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(frame.size()));
  if (room != nullptr) {
    std::memcpy(room, frame.data(), frame.size());
    if (transmit(mbuf)) return true;
  }
  rte_pktmbuf_free(mbuf);
  return false;
}

}  // namespace tiercast::receiver
