#include "protocols/schemes/rla/scoreboard.h"

namespace tiercast::rla {

Scoreboard::Scoreboard(std::uint32_t window, std::uint32_t members)
    : mask_(window - 1),
      member_words_(window / 64),
      row_words_((members + 63) / 64),
      packets_(window),
      have_(members * member_words_),
      lost_(window * row_words_),
      cum_acks_(members),
      reaches_(members) {}

void Scoreboard::restart(std::uint32_t first) { base_ = next_ = first; }

std::uint32_t Scoreboard::push(Time now) {
  PacketState& state = packet(next_);
  state = {};
  state.mark = next_ + 1;
  state.sent = now;
  return next_++;
}

void Scoreboard::join(std::uint32_t slot, std::uint32_t cum_ack) {
  ++members_;
  cum_acks_[slot] = reaches_[slot] = cum_ack;
  for (std::uint32_t seq = base_; seq != cum_ack; ++seq) ++packet(seq).acked;
}

void Scoreboard::leave(std::uint32_t slot) {
  --members_;
  for (std::uint32_t seq = base_; seq != next_; ++seq) {
    PacketState& state = packet(seq);
    if (has(slot, seq)) --state.acked;
    if (is_lost(slot, seq)) {
      row(seq)[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
      --state.lost;
    }
  }
  std::fill_n(have_.begin() + static_cast<std::ptrdiff_t>(slot * member_words_), member_words_, 0);
}

bool Scoreboard::slide() {
  const std::uint32_t before = base_;
  while (members_ > 0 && base_ != next_ && packet(base_).acked == members_) ++base_;
  return base_ != before;
}

void Scoreboard::note_acked(std::uint32_t slot, std::uint32_t seq) {
  PacketState& state = packet(seq);
  ++state.acked;
  if (state.lost == 0 || !is_lost(slot, seq)) return;
  row(seq)[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  --state.lost;
}

bool Scoreboard::lose(std::uint32_t slot, std::uint32_t seq) {
  if (is_lost(slot, seq)) return false;
  row(seq)[slot / 64] |= std::uint64_t{1} << (slot % 64);
  ++packet(seq).lost;
  return true;
}

void PacketList::append(std::uint32_t seq) {
  PacketState& state = board_.packet(seq);
  state.previous = tail_;
  if (size_ == 0) {
    head_ = seq;
  } else {
    board_.packet(tail_).next = seq;
  }
  tail_ = seq;
  ++size_;
}

void PacketList::remove(std::uint32_t seq) {
  const PacketState& state = board_.packet(seq);
  if (seq == head_) {
    head_ = state.next;
  } else {
    board_.packet(state.previous).next = state.next;
  }
  if (seq == tail_) {
    tail_ = state.previous;
  } else {
    board_.packet(state.next).previous = state.previous;
  }
  --size_;
}

}  // namespace tiercast::rla
