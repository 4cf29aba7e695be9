// The host's side of IGMP, versions 3 (RFC 3376) and 2 (RFC 2236): joins, leaves, and answers to
// queries. No I/O: frames go in and come out.
//
// Starts with version 3 and follows an older querier (RFC 3376 section 7.2.1), or speaks version 2
// from the start. In version 3 a membership of a group from one source is INCLUDE {source}, and one
// from any source EXCLUDE {}; version 2 knows no sources. Version 1 is answered as version 2. Of
// several memberships of one group only what changes the host's state is told: in version 2 the
// last leave, in version 3 no leave of a source while any is received.
//
// Delays are random, as the RFCs say; those of answers are whole multiples of 10 ms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataplane/dpdk/responder.h"
#include "protocols/base/rng.h"
#include "protocols/base/units.h"

namespace tiercast::receiver {

class IgmpHost {
 public:
  static constexpr unsigned kRobustness = 2;                                     // RFC 3376 8.1
  static constexpr Duration kUnsolicited = Duration::milliseconds(1000);         // 8.11
  static constexpr Duration kOlderQuerier = Duration::milliseconds(260 * 1000);  // 8.12
  static constexpr std::size_t kFrameBytes = 1514;

  // `version`: 2 or 3. `capacity`: memberships at a time.
  IgmpHost(const dpdk::OwnAddress& own, int version, std::uint32_t capacity, std::uint64_t seed);

  // Joins at once. `source` (host order): 0: any. A membership that there is already is left alone.
  // False: no room.
  bool join(Time now, std::uint32_t group, std::uint32_t source);
  void leave(Time now, std::uint32_t group, std::uint32_t source);
  void leave_all(Time now);

  // An IGMP message that dpdk::igmp_kind() calls a query, or another's report.
  void query(Time now, std::span<const std::byte> frame);
  void report(std::span<const std::byte> frame);

  // To be called until it returns an empty span, and again at next_deadline(). The next frame to be
  // sent, which is valid until the next call.
  std::span<const std::byte> next_frame(Time now);
  Time next_deadline() const { return next_; }
  int version(Time now) const { return now < older_until_ ? 2 : version_; }

 private:
  struct Membership {
    std::uint32_t group = 0;  // 0: free
    std::uint32_t source = 0;
    Time answer = Time::never();  // when a query is to be answered
    Time change = Time::never();  // when the change is to be told (again)
    std::uint8_t repeats = 0;     // how often it is still to be told
    bool joined = false;          // otherwise it is leaving
  };

  static std::uint64_t key_of(std::uint32_t group, std::uint32_t source) {
    return std::uint64_t{group} << 32 | source;
  }
  void forget(Membership& membership);
  void begin_leave(Time now, Membership& membership);
  // Whether leaving it changes what the host receives of its group, for those who hear `version`.
  bool tells_leave(int version, const Membership& membership) const;
  void set_due(Time& member, Time due);
  std::span<const std::byte> finish(std::uint32_t destination, std::size_t igmp_bytes);
  std::span<const std::byte> write_v2(std::uint8_t type, std::uint32_t group,
                                      std::uint32_t destination);
  // Whether something of it is due that is to be told; then its record's type.
  bool take(Time now, int version, Membership& membership, std::uint8_t& type);

  const dpdk::OwnAddress own_;
  const int version_;
  Rng rng_;
  std::vector<Membership> memberships_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;   // by group and source
  std::unordered_map<std::uint32_t, std::uint32_t> joined_;  // memberships, by group
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;    // memberships beyond this one have never been used
  std::uint32_t cursor_ = 0;  // of the pass over all memberships
  Time next_ = Time::never();
  Time pass_next_ = Time::never();
  Time older_until_ = Time::zero();
  std::array<std::byte, kFrameBytes> frame_{};
};

}  // namespace tiercast::receiver
