// The sender's children in the aggregation tree, learnt from their feedback (PROTOCOLS 3.5).
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

  // Starts a round. No child has answered it yet.
  void begin_round();

  enum class Answer {
    kKnown,      // a child's first answer in this round
    kNew,        // a new child's first answer
    kDuplicate,  // the child has answered this round already
    kFull,       // a new child, but no room for it
  };
  Answer answer(std::uint32_t source);
  // Feedback that is too late for its round still shows that the child is alive. A new child has
  // its answer to this round yet to give.
  void seen(std::uint32_t source);
  void remove(std::uint32_t source);
  // Removes children that have been silent for `silent_rounds` rounds, including this one. To be
  // called once at the end of each round.
  void end_round(unsigned silent_rounds);
  void clear();

  std::uint32_t count() const { return static_cast<std::uint32_t>(list_.size()); }
  // Known children that have not answered this round yet.
  std::uint32_t pending() const { return pending_; }
  std::uint32_t answered() const { return answered_; }

 private:
  struct Child {
    std::uint32_t source;
    std::uint32_t answered_round;  // equal to round_ if it has answered this round
    unsigned silent;               // rounds without an answer
  };
  static constexpr std::uint32_t kEmpty = 0xffffffff;

  std::size_t bucket(std::uint32_t source) const;  // its bucket, or the empty one where it would go
  void erase_at(std::size_t index);

  std::uint32_t max_children_;
  std::vector<Child> list_;             // dense
  std::vector<std::uint32_t> buckets_;  // index into list_, linear probing
  std::uint32_t round_ = 0;
  std::uint32_t pending_ = 0;
  std::uint32_t answered_ = 0;
};

}  // namespace tiercast::sim
