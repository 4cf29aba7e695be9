#include "dataplane/receiver/igmp/igmp_host.h"

#include <algorithm>

#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::receiver {
namespace {

using wire::get16;
using wire::get32;
using wire::get8;
using wire::put16;
using wire::put32;
using wire::put8;

constexpr std::size_t kIpBytes = 24;  // with the Router Alert option (RFC 2113)
constexpr std::size_t kIgmpAt = wire::kEthernetBytes + kIpBytes;
constexpr std::uint32_t kAllRouters = 0xE0000002;    // 224.0.0.2
constexpr std::uint32_t kAllV3Routers = 0xE0000016;  // 224.0.0.22
constexpr std::uint8_t kReportV2 = 0x16, kLeave = 0x17, kReportV3 = 0x22;
constexpr std::size_t kRecords = 120;  // of a report; with a source each they fill 1,440 bytes
// Types of group records (RFC 3376 section 4.2.12).
constexpr std::uint8_t kIsInclude = 1, kIsExclude = 2, kToInclude = 3, kToExclude = 4, kAllow = 5,
                       kBlock = 6;
constexpr std::int64_t kTickNs = 10'000'000;
constexpr std::uint32_t kMembershipsPerCall = 4096;

// RFC 3376 section 4.1.1; version 1 has none, and waits 10 s (RFC 2236 section 4).
Duration max_response(std::span<const std::byte> igmp) {
  const std::uint8_t code = get8(igmp, 1);
  if (igmp.size() == 8 && code == 0) return Duration::milliseconds(10'000);
  if (igmp.size() == 8 || code < 128) return Duration::milliseconds(100 * code);
  return Duration::milliseconds(std::int64_t{100} *
                                (((code & 0xf) | 0x10) << ((code >> 4 & 7) + 3)));
}

std::span<const std::byte> igmp_of(std::span<const std::byte> frame) {
  const auto ip = frame.subspan(wire::kEthernetBytes);
  return ip.first(get16(ip, 2)).subspan((static_cast<std::size_t>(get8(ip, 0)) & 0xf) * 4);
}

}  // namespace

IgmpHost::IgmpHost(const dpdk::OwnAddress& own, int version, std::uint32_t capacity,
                   std::uint64_t seed)
    : own_(own), version_(version), rng_(seed), memberships_(capacity) {}

void IgmpHost::forget(Membership& membership) {
  index_.erase(key_of(membership.group, membership.source));
  free_.push_back(static_cast<std::uint32_t>(&membership - memberships_.data()));
  membership = Membership{};
}

void IgmpHost::set_due(Time& member, Time due) {
  member = due;
  next_ = std::min(next_, due);
  pass_next_ = std::min(pass_next_, due);
}

bool IgmpHost::join(Time now, std::uint32_t group, std::uint32_t source) {
  const auto found = index_.find(key_of(group, source));
  std::uint32_t at = 0;
  if (found != index_.end()) {
    at = found->second;
    if (memberships_[at].joined) return true;
  } else if (!free_.empty()) {
    at = free_.back();
    free_.pop_back();
  } else if (used_ < memberships_.size()) {
    at = used_++;
  } else {
    return false;
  }
  index_[key_of(group, source)] = at;
  Membership* const membership = &memberships_[at];
  *membership = {.group = group, .source = source, .repeats = kRobustness, .joined = true};
  ++joined_[group];
  set_due(membership->change, now);
  return true;
}

void IgmpHost::leave(Time now, std::uint32_t group, std::uint32_t source) {
  const auto found = index_.find(key_of(group, source));
  if (found == index_.end() || !memberships_[found->second].joined) return;
  begin_leave(now, memberships_[found->second]);
}

void IgmpHost::leave_all(Time now) {
  for (std::uint32_t i = 0; i < used_; ++i) {
    Membership& one = memberships_[i];
    if (one.group != 0 && one.joined) begin_leave(now, one);
  }
}

void IgmpHost::begin_leave(Time now, Membership& membership) {
  membership.joined = false;
  membership.answer = Time::never();
  membership.repeats = kRobustness;
  set_due(membership.change, now);
  const auto joined = joined_.find(membership.group);
  if (--joined->second == 0) joined_.erase(joined);
}

bool IgmpHost::tells_leave(int version, const Membership& membership) const {
  if (!joined_.contains(membership.group)) return true;
  if (version == 2) return false;
  const auto any = index_.find(key_of(membership.group, 0));
  return any == index_.end() || !memberships_[any->second].joined;
}

void IgmpHost::query(Time now, std::span<const std::byte> frame) {
  const auto igmp = igmp_of(frame);
  const bool v3 = igmp.size() >= 12;
  if (!v3) older_until_ = now + kOlderQuerier;
  const std::uint32_t group = get32(igmp, 4);
  const std::size_t sources = v3 ? get16(igmp, 10) : 0;
  const auto ticks = static_cast<std::uint64_t>(max_response(igmp).ns() / kTickNs);
  const auto delay = [&] {
    return Duration::nanoseconds(static_cast<std::int64_t>(rng_.below(ticks + 1)) * kTickNs);
  };
  // Version 3 answers for all groups at once, version 2 for each by itself.
  const Time together = now + delay();
  for (std::uint32_t i = 0; i < used_; ++i) {
    Membership& one = memberships_[i];
    if (one.group == 0 || !one.joined || (group != 0 && one.group != group)) continue;
    if (sources > 0 && one.source != 0) {
      bool asked = false;
      for (std::size_t s = 0; s < sources; ++s) asked |= get32(igmp, 12 + 4 * s) == one.source;
      if (!asked) continue;
    }
    const Time due = v3 ? together : now + delay();
    if (due < one.answer) set_due(one.answer, due);
  }
}

// A member that hears another's report of version 2 keeps quiet (RFC 2236 section 3). In version 3
// hosts do not suppress reports.
void IgmpHost::report(std::span<const std::byte> frame) {
  const auto igmp = igmp_of(frame);
  if (get8(igmp, 0) != kReportV2) return;
  const std::uint32_t group = get32(igmp, 4);
  for (std::uint32_t i = 0; i < used_; ++i) {
    if (memberships_[i].group == group) memberships_[i].answer = Time::never();
  }
}

bool IgmpHost::take(Time now, int version, Membership& membership, std::uint8_t& type) {
  const bool any = membership.source == 0;
  if (membership.change <= now) {
    if (!membership.joined && !tells_leave(version, membership)) {
      forget(membership);
      return false;
    }
    if (version == 3) {
      type = membership.joined ? (any ? kToExclude : kAllow) : (any ? kToInclude : kBlock);
    } else {
      type = membership.joined ? kReportV2 : kLeave;
      if (!membership.joined) membership.repeats = 1;
    }
    if (--membership.repeats > 0) {
      const double share = rng_.uniform();
      set_due(membership.change, now + Duration::seconds(kUnsolicited.seconds() * share));
    } else {
      membership.change = Time::never();
      if (!membership.joined) forget(membership);
    }
    return true;
  }
  if (membership.answer <= now) {
    membership.answer = Time::never();
    type = version == 3 ? (any ? kIsExclude : kIsInclude) : kReportV2;
    return true;
  }
  return false;
}

std::span<const std::byte> IgmpHost::next_frame(Time now) {
  if (now < next_) return {};
  const int speaks = version(now);
  const std::span<std::byte> igmp = std::span(frame_).subspan(kIgmpAt);
  std::size_t records = 0;
  std::size_t at = 8;
  for (std::uint32_t steps = 0; cursor_ < used_ && steps < kMembershipsPerCall;
       ++cursor_, ++steps) {
    Membership& one = memberships_[cursor_];
    if (one.group == 0) continue;
    const std::uint32_t group = one.group;
    const std::uint32_t source = one.source;
    std::uint8_t type = 0;
    if (take(now, speaks, one, type)) {
      if (speaks == 2) {
        // The same membership again, in case that it has more to say.
        return write_v2(type, group, type == kLeave ? kAllRouters : group);
      }
      const bool listed = source != 0;
      put8(igmp, at, type);
      put8(igmp, at + 1, 0);
      put16(igmp, at + 2, listed ? 1 : 0);
      put32(igmp, at + 4, group);
      if (listed) put32(igmp, at + 8, source);
      at += listed ? 12 : 8;
      if (++records == kRecords) {
        pass_next_ = now;
        ++cursor_;
        break;
      }
    }
    pass_next_ = std::min({pass_next_, one.answer, one.change});
  }
  if (cursor_ >= used_) {
    cursor_ = 0;
    next_ = pass_next_;
    pass_next_ = Time::never();
  }
  if (records == 0) return {};
  put8(igmp, 0, kReportV3);
  put8(igmp, 1, 0);
  put16(igmp, 2, 0);
  put16(igmp, 4, 0);
  put16(igmp, 6, static_cast<std::uint16_t>(records));
  put16(igmp, 2, wire::internet_checksum(igmp.first(at)));
  return finish(kAllV3Routers, at);
}

std::span<const std::byte> IgmpHost::write_v2(std::uint8_t type, std::uint32_t group,
                                              std::uint32_t destination) {
  const std::span<std::byte> igmp = std::span(frame_).subspan(kIgmpAt);
  put8(igmp, 0, type);
  put8(igmp, 1, 0);
  put16(igmp, 2, 0);
  put32(igmp, 4, group);
  put16(igmp, 2, wire::internet_checksum(igmp.first(8)));
  return finish(destination, 8);
}

std::span<const std::byte> IgmpHost::finish(std::uint32_t destination, std::size_t igmp_bytes) {
  const std::span<std::byte> frame(frame_);
  const wire::MacAddress mac = wire::multicast_mac(destination);
  std::copy(mac.begin(), mac.end(), frame.begin());
  std::copy(own_.mac.begin(), own_.mac.end(), frame.begin() + 6);
  put16(frame, 12, 0x0800);
  const auto ip = frame.subspan(wire::kEthernetBytes);
  put8(ip, 0, 0x46);
  put8(ip, 1, 0xc0);  // RFC 3376 section 4
  put16(ip, 2, static_cast<std::uint16_t>(kIpBytes + igmp_bytes));
  put32(ip, 4, 0x00004000);  // no number, don't fragment
  put8(ip, 8, 1);
  put8(ip, 9, 2);
  put16(ip, 10, 0);
  put32(ip, 12, own_.ip);
  put32(ip, 16, destination);
  put32(ip, 20, 0x94040000);  // Router Alert
  put16(ip, 10, wire::internet_checksum(ip.first(kIpBytes)));
  // Without a checksum's worth of padding Ethernet's smallest frame is not reached.
  std::size_t size = kIgmpAt + igmp_bytes;
  constexpr std::size_t kSmallest = 60;
  if (size < kSmallest) {
    std::fill(frame_.begin() + static_cast<std::ptrdiff_t>(size), frame_.begin() + kSmallest,
              std::byte{0});
    size = kSmallest;
  }
  return std::span<const std::byte>(frame_).first(size);
}

}  // namespace tiercast::receiver
