// A part of the simulated network with a clock and events of its own: a switch with its hosts, or
// several of them. Other parts reach it by messages alone, so it can run while they do.
// SPDX-License-Identifier: GPL-2.0-only
//
// The order of what happens at one instant does not depend on threads: first the events that were
// scheduled before that instant, then messages, by the number of the source and in its order, then
// the events that were scheduled at that instant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ns3/kernel/event_queue.h"

namespace tiercast::ns3_runtime {

class Worker;

// To whom a message goes.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Called by the process that was named to LogicalProcess::send(), at the message's time.
  virtual void receive(std::uint32_t port, std::span<const std::byte> frame) = 0;
};

// What knows about messages before their time: a switch, whose frames travel for a while.
class Source {
 public:
  virtual ~Source() = default;
  // Sends what is due before `before_ns` and has not been sent yet. Called at the end of a window;
  // nobody looks at the source before `before_ns`.
  virtual void hand_over(std::int64_t before_ns) = 0;
};

// A time in which processes run without each other. Each does what comes before `until_ns`, and
// must send what is due before `ahead_ns`. It may send what is due before `pause_ns`.
struct Window {
  std::int64_t from_ns;
  std::int64_t until_ns;
  std::int64_t ahead_ns;
  std::int64_t pause_ns;
};

// A frame on its way.
struct Message {
  std::int64_t due_ns;
  std::uint32_t source;    // the number of who sends it
  std::uint32_t port;      // of the receiver
  std::uint64_t sequence;  // ascending, of each source
  Receiver* receiver;
  std::span<const std::byte> frame;
};

class LogicalProcess {
 public:
  // `number`: of the process, unique in a kernel.
  explicit LogicalProcess(std::uint32_t number);
  ~LogicalProcess();

  std::uint32_t number() const { return number_; }
  std::int64_t now() const { return now_; }
  // Of its first event; kNever if there is none.
  std::int64_t next_event() const { return queue_.next(); }

  // At a time in the past the event runs now.
  void schedule(Event& event, std::int64_t at_ns) {
    queue_.schedule(event, std::max(at_ns, now_));
    if (at_ns < *next_) *next_ = at_ns;
  }
  void cancel(Event& event) { queue_.cancel(event); }
  // Calls `what` at that time, once.
  void at(std::int64_t at_ns, std::function<void()> what);

  // Sources are asked for their messages in the order in which they were added.
  void add(Source& source) { sources_.push_back(&source); }
  // Sends to a receiver in another process. The message must be due no earlier than the end of this
  // window. Its frame is copied.
  void send(LogicalProcess& to, const Message& message);
  // Calls `what` at this instant in the kernel's control process, which is once this window is
  // over.
  void ask_control(std::function<void()> what);
  // Writes a line of output. Lines of all processes are put in the order of time, of the processes'
  // numbers, and then as each has written them.
  void write(std::string_view line);

  // The process that the calling thread runs; null outside windows.
  static LogicalProcess* running() { return running_; }

 private:
  friend class Kernel;
  friend class Worker;

  class Once;

  void run_window(const Window& window);
  void run_until(std::int64_t until_ns);
  void arrive(const Message& message);
  void sort_arrivals();

  static thread_local LogicalProcess* running_;

  const std::uint32_t number_;
  std::int64_t now_ = 0;
  std::int64_t own_next_ = kNever;
  // No event or message is earlier. A worker has those of all its processes side by side.
  std::int64_t* next_ = &own_next_;
  Worker* worker_ = nullptr;
  EventQueue queue_;
  std::vector<Source*> sources_;
  std::vector<Message> arrivals_;
  std::size_t sorted_ = 0;  // of them, the first ones: what earlier windows have left
  std::deque<std::vector<std::byte>> kept_;  // frames of arrivals that were sent outside windows
  std::vector<std::unique_ptr<Once>> once_;  // all of at()
  std::vector<Once*> free_;                  // of those, the ones that have run
};

}  // namespace tiercast::ns3_runtime
