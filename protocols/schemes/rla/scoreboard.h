// Which receiver has which packet of the window: the SACK scoreboards of all receivers. For each
// packet it counts how many have it and knows which lost it (PROTOCOLS 5.2).
//
// The window is base() .. next()-1; base() is the paper's min_last_ack. Memory: (window x members)
// x 2 bits, allocated by the constructor. An acknowledgement costs O(packets that it newly
// acknowledges) and a few words for each SACK block. A repetition costs O(members / 64) per packet.
// Joins and leaves cost O(window).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocols/base/serial.h"
#include "protocols/base/units.h"

namespace tiercast::rla {

struct PacketState {
  enum class Repair : std::uint8_t {
    kNone,
    kQueued,  // all have or lost it; it waits for room in the window
    kReady,   // the next packet to leave is this one, by multicast
    kOut,     // repeated; not all have reported since
  };
  std::uint32_t acked = 0;     // receivers that have it
  std::uint32_t lost = 0;      // receivers that have lost it since it last left
  std::uint32_t mark = 0;      // the next packet number when it last left; packets from there on
                               // were sent later
  Time sent;                   // when it last left
  std::uint32_t previous = 0;  // in its list
  std::uint32_t next = 0;
  Repair repair = Repair::kNone;
  bool repeated = false;
  bool done = false;  // all receivers have had it
};

class Scoreboard {
 public:
  // `window`: packets, a power of two, 64 .. 2^16. `members`: number of slots.
  Scoreboard(std::uint32_t window, std::uint32_t members);

  void restart(std::uint32_t first);
  std::uint32_t base() const { return base_; }
  std::uint32_t next() const { return next_; }
  std::uint32_t under_way() const { return next_ - base_; }
  bool contains(std::uint32_t seq) const { return seq - base_ < under_way(); }
  std::uint32_t members() const { return members_; }
  PacketState& packet(std::uint32_t seq) { return packets_[seq & mask_]; }
  const PacketState& packet(std::uint32_t seq) const { return packets_[seq & mask_]; }

  // Enters a new packet that leaves. Only while under_way() < window.
  std::uint32_t push(Time now);
  // Adds a member that has all packets before `cum_ack`, which must be in base() .. next().
  void join(std::uint32_t slot, std::uint32_t cum_ack);
  void leave(std::uint32_t slot);
  // Drops the packets at the window's start that all members have. Returns whether the window
  // moved; it does not without members.
  bool slide();

  std::uint32_t cum_ack(std::uint32_t slot) const { return cum_acks_[slot]; }
  // One above the highest packet that the member has.
  std::uint32_t reach(std::uint32_t slot) const { return reaches_[slot]; }
  bool has(std::uint32_t slot, std::uint32_t seq) const {
    return serial_difference(seq, cum_acks_[slot]) < 0 || (word(slot, seq) >> (seq & 63) & 1) != 0;
  }

  // The member has all packets before `to` (at most next()). Calls `on_new(seq)` for each that it
  // did not have.
  template <class OnNew>
  void acknowledge_before(std::uint32_t slot, std::uint32_t to, OnNew on_new) {
    for (std::uint32_t seq = cum_acks_[slot]; serial_newer(to, seq); ++seq) {
      const bool had = has(slot, seq);
      word(slot, seq) &= ~(std::uint64_t{1} << (seq & 63));
      cum_acks_[slot] = seq + 1;
      if (had) continue;
      note_acked(slot, seq);
      on_new(seq);
    }
    if (serial_newer(to, reaches_[slot])) reaches_[slot] = to;
    settle(slot);
  }

  // The member has packets from .. to-1, which are within the window.
  template <class OnNew>
  void acknowledge(std::uint32_t slot, std::uint32_t from, std::uint32_t to, OnNew on_new) {
    if (serial_newer(cum_acks_[slot], from)) from = cum_acks_[slot];
    if (serial_newer(to, reaches_[slot])) reaches_[slot] = to;
    while (serial_newer(to, from)) {
      const std::uint32_t count = std::min(64 - (from & 63), to - from);
      const std::uint64_t bits = (count == 64 ? 0 : std::uint64_t{1} << count) - 1;
      std::uint64_t& have = word(slot, from);
      std::uint64_t fresh = bits << (from & 63) & ~have;
      have |= fresh;
      for (; fresh != 0; fresh &= fresh - 1) {
        const std::uint32_t seq =
            (from & ~63u) + static_cast<std::uint32_t>(std::countr_zero(fresh));
        note_acked(slot, seq);
        on_new(seq);
      }
      from += count;
    }
    settle(slot);
  }

  // Calls `on_missing(seq)` for each packet of from .. to-1, within the window, that the member
  // does not have.
  template <class OnMissing>
  void missing(std::uint32_t slot, std::uint32_t from, std::uint32_t to, OnMissing on_missing) {
    if (serial_newer(cum_acks_[slot], from)) from = cum_acks_[slot];
    while (serial_newer(to, from)) {
      const std::uint32_t count = std::min(64 - (from & 63), to - from);
      const std::uint64_t bits = (count == 64 ? 0 : std::uint64_t{1} << count) - 1;
      std::uint64_t holes = bits << (from & 63) & ~word(slot, from);
      for (; holes != 0; holes &= holes - 1) {
        on_missing((from & ~63u) + static_cast<std::uint32_t>(std::countr_zero(holes)));
      }
      from += count;
    }
  }

  // The member lost the packet. False if that was known.
  bool lose(std::uint32_t slot, std::uint32_t seq);
  bool is_lost(std::uint32_t slot, std::uint32_t seq) const {
    return (row(seq)[slot / 64] >> (slot % 64) & 1) != 0;
  }
  // The packet leaves again for all receivers that lost it. Calls `on_loser(slot)` for each.
  template <class OnLoser>
  void repeat(Time now, std::uint32_t seq, OnLoser on_loser) {
    PacketState& state = packet(seq);
    state.mark = next_;
    state.sent = now;
    state.repeated = true;
    if (state.lost == 0) return;
    state.lost = 0;
    std::uint64_t* words = row(seq);
    for (std::size_t i = 0; i < row_words_; ++i) {
      for (; words[i] != 0; words[i] &= words[i] - 1) {
        on_loser(static_cast<std::uint32_t>(i * 64) +
                 static_cast<std::uint32_t>(std::countr_zero(words[i])));
      }
    }
  }

 private:
  void note_acked(std::uint32_t slot, std::uint32_t seq);
  // A genuine cum_ack stops at a hole. Whatever was received, the window must not slide past a bit
  // that is set.
  void settle(std::uint32_t slot) {
    for (std::uint32_t& cum = cum_acks_[slot]; cum != next_; ++cum) {
      const std::uint64_t bit = std::uint64_t{1} << (cum & 63);
      if ((word(slot, cum) & bit) == 0) return;
      word(slot, cum) &= ~bit;
    }
  }
  std::uint64_t& word(std::uint32_t slot, std::uint32_t seq) {
    return have_[slot * member_words_ + (seq & mask_) / 64];
  }
  std::uint64_t word(std::uint32_t slot, std::uint32_t seq) const {
    return have_[slot * member_words_ + (seq & mask_) / 64];
  }
  std::uint64_t* row(std::uint32_t seq) { return &lost_[(seq & mask_) * row_words_]; }
  const std::uint64_t* row(std::uint32_t seq) const { return &lost_[(seq & mask_) * row_words_]; }

  const std::uint32_t mask_;
  const std::size_t member_words_;
  const std::size_t row_words_;
  std::uint32_t base_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t members_ = 0;
  std::vector<PacketState> packets_;     // by packet number, modulo the window
  std::vector<std::uint64_t> have_;      // per member: the packets above its cum_ack that it has
  std::vector<std::uint64_t> lost_;      // per packet: the members that lost it
  std::vector<std::uint32_t> cum_acks_;  // per member
  std::vector<std::uint32_t> reaches_;   // per member
};

// A list of packets in order of appending, linked through their PacketState.
class PacketList {
 public:
  explicit PacketList(Scoreboard& board) : board_(board) {}

  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  std::uint32_t front() const { return head_; }
  void append(std::uint32_t seq);
  void remove(std::uint32_t seq);

 private:
  Scoreboard& board_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace tiercast::rla
