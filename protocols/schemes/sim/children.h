// The sender's children in the aggregation tree, learnt from the feedback they send
// (PROTOCOLS 3.5).
//
// A hash table of fixed size: O(1) per feedback, O(children) per round, no allocation after
// construction.
#pragma once

#include <cstdint>
#include <vector>

namespace tiercast::sim {

class Children {
 public:
  explicit Children(std::uint32_t max_children);

  // Starts a round, which no child has answered yet.
  void begin_round();

  enum class Answer {
    kKnown,      // a child's first answer in this round
    kNew,        // a child that was not known before, and now is
    kDuplicate,  // answered this round already
    kFull,       // not known, and no room
  };
  Answer answer(std::uint32_t source);
  // A feedback that is too late for its round still shows that the child lives.
  void seen(std::uint32_t source);
  void remove(std::uint32_t source);
  // Forgets those that were silent for `silent_rounds` rounds, this one included. Once per round,
  // at its end.
  void end_round(unsigned silent_rounds);
  void clear();

  std::uint32_t count() const { return static_cast<std::uint32_t>(list_.size()); }
  // Children known when the round began that have not answered yet.
  std::uint32_t pending() const { return pending_; }
  std::uint32_t answered() const { return answered_; }

 private:
  struct Child {
    std::uint32_t source;
    std::uint32_t answered_round;  // round_ if it answered this one
    unsigned silent;               // rounds without an answer
  };
  static constexpr std::uint32_t kEmpty = 0xffffffff;

  std::size_t bucket(
      std::uint32_t source) const;  // where it is, or the empty bucket where it would be
  void erase_at(std::size_t index);

  std::uint32_t max_children_;
  std::vector<Child> list_;             // dense
  std::vector<std::uint32_t> buckets_;  // index into list_, linear probing
  std::uint32_t round_ = 0;
  std::uint32_t pending_ = 0;
  std::uint32_t answered_ = 0;
};

}  // namespace tiercast::sim
