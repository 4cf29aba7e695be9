// A thread that sleeps until one of its members has something to do, and gives it a turn. A member
// is the data plane of a switch, or one of its workers if it has several. Switches that are linked
// in memory are members of one loop, so a frame goes from one to the next without a lock or a
// system call. They take their turns in the order of what is due, so that a late thread changes
// nothing between them: only what leaves them is late.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace tiercast::vswitch {

class Loop {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  class Member {
   public:
    virtual ~Member() = default;
    // A descriptor that is watched with this key can be read.
    virtual void readable(std::uint64_t key) = 0;
    // Does what is due up to `until_ns`, and lets its time go on to then. kNever: up to now. Times
    // are of CLOCK_MONOTONIC, in ns. Returns when it wants its next turn.
    virtual std::int64_t turn(std::int64_t until_ns) = 0;
    // Loop::wake() was called for it. A turn follows.
    virtual void woken() = 0;
    // Called instead of turn() when the loop ends.
    virtual void last_turn() = 0;
    // Something is due for it at this time. To be called on the loop's thread.
    void touch(std::int64_t at_ns) {
      std::int64_t& due_ns = loop_->due_ns_[place_];
      due_ns = std::min(due_ns, at_ns);
    }

   private:
    friend class Loop;
    Loop* loop_ = nullptr;
    std::size_t place_ = 0;  // in loop_->members_
    std::atomic<bool> woken_ = false;
    bool ready_ = false;
  };

  // A loop that is later than this, in ns, is no longer held to the order of what is due: all
  // members go on to now.
  explicit Loop(std::int64_t most_late_ns = 20'000'000);
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // --- Before the thread starts. A member must outlive the thread. ---

  void add(Member& member);
  // `key` is one of the member's own, for readable().
  void watch(int fd, Member& member, std::uint64_t key);
  // The loop never sleeps, and this member has a turn again and again: it has something that must
  // be polled.
  void poll(Member& member);
  // Sleeps at most so often in a second, but for a few in a row (0: as often as it likes). What is
  // due in the meantime waits, which takes less of a core: most of the time of a busy loop goes
  // into falling asleep.
  void limit_sleeps(unsigned in_a_second);
  // The member is ready for its first turn. The thread starts once all are.
  void start(Member& member);

  // --- On any other thread. ---

  // Gives the member a turn.
  void wake(Member& member);
  // Gives each member its last turn, and ends the thread.
  void stop();

 private:
  struct Watched {
    Member* member;
    std::uint64_t key;
  };

  // Whose turn is next, when it is due, and when something is due for another one.
  struct Next {
    std::size_t place;
    std::int64_t due_ns;
    std::int64_t others_due_ns;
  };

  void run();
  Next next() const;
  void give_turn(std::size_t place, std::int64_t until_ns);
  void sleep(std::int64_t until_ns);
  void look(std::int64_t until_ns);

  const std::int64_t most_late_ns_;
  std::vector<Member*> members_;
  std::vector<std::int64_t> due_ns_;  // of each member: when it wants its turn
  std::vector<Watched> watched_;
  std::vector<std::size_t> polling_;  // places of members
  std::int64_t sleep_gap_ns_ = 0;     // on average from one sleep's end to the next one's, at least
  std::int64_t may_wake_ns_ = 0;
  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd: a member was woken, or the loop is to end
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace tiercast::vswitch
