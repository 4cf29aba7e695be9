// A thread that sleeps until one of its members has something to do, and gives it a turn. A member
// is the data plane of a switch, or one of its workers if it has several. Switches that are linked
// in memory are members of one loop, so a frame goes from one to the next without a lock or a
// system call.
#pragma once

#include <atomic>
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
    // Does what there is to do, and lets its time go on to `until_ns` at most, so that the members
    // of a loop go on together: none is ahead of what another one hands it later. kNever: up to
    // now. Times are of CLOCK_MONOTONIC, in ns. Returns when it wants its next turn.
    virtual std::int64_t turn(std::int64_t until_ns) = 0;
    // Loop::wake() was called for it. A turn follows.
    virtual void woken() = 0;
    // Called instead of turn() when the loop ends.
    virtual void last_turn() = 0;
    // Asks for a turn now. To be called on the loop's thread.
    void touch() { touched_ = true; }

   private:
    friend class Loop;
    bool touched_ = true;
    std::atomic<bool> woken_ = false;
    bool ready_ = false;
    std::int64_t due_ns_ = 0;
  };

  Loop();
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // --- Before the thread starts. A member must outlive the thread. ---

  void add(Member& member) { members_.push_back(&member); }
  // `key` is one of the member's own, for readable().
  void watch(int fd, Member& member, std::uint64_t key);
  // Never sleeps from now on: a member has something that must be polled.
  void poll() { polls_ = true; }
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

  void run();
  void wait(std::int64_t until_ns);

  std::vector<Member*> members_;
  std::vector<Watched> watched_;
  bool polls_ = false;
  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd: a member was woken, or the loop is to end
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace tiercast::vswitch
