// The processes that one thread runs, and what they have sent, asked and written in a window.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ns3/kernel/logical_process.h"

namespace tiercast::ns3_runtime {

// What all processes of a window have asked the control process, or written.
struct Said {
  std::int64_t time_ns;
  std::uint32_t process;
  bool operator<(const Said& other) const {
    return time_ns != other.time_ns ? time_ns < other.time_ns : process < other.process;
  }
};
struct Asked : Said {
  std::function<void()> what;
};
struct Written : Said {
  std::string_view line;  // in the worker's text
};

class Worker {
 public:
  // `number`: 0 to `workers` - 1.
  Worker(std::uint32_t number, std::uint32_t workers, LogicalProcess& control)
      : number_(number), control_(control), outboxes_(workers) {}

  // Before the first window.
  void add(LogicalProcess& process);
  // When it has all its processes.
  void begin();

  // Runs a window of all its processes; they get what was sent in the window before this one.
  void run_window(const std::vector<Worker*>& all, const Window& window);
  // The earliest event of its processes, or message to them or just sent by them. Between windows.
  std::int64_t next() const;
  // How many of its processes have something to do before that time, and messages just sent.
  std::size_t busy_before(std::int64_t before_ns) const;
  LogicalProcess& control() { return control_; }
  // Sets the clocks, between windows.
  void stand_at(std::int64_t now_ns);

  // Called by a process that runs.
  void send(LogicalProcess& to, const Message& message);
  void ask_control(const LogicalProcess& from, std::function<void()> what) {
    asked.push_back({{from.now(), from.number()}, std::move(what)});
  }
  void write(const LogicalProcess& from, std::string_view line);

  // Of the last window, for the kernel to take. Each process's are in its order.
  std::vector<Asked> asked;
  const std::vector<Written>& written();
  void forget_written();

 private:
  // The messages of a window to the processes of one worker.
  struct Mailbox {
    struct Letter {
      LogicalProcess* to;
      Message message;  // its frame is in `frames`, from `offset` on
      std::size_t offset, size;
    };
    std::vector<Letter> letters;
    std::vector<std::byte> frames;
    std::int64_t last_due_ns = 0;
  };
  struct Outbox {
    // Written in one window and read in the next, by the other worker, in turn.
    std::array<std::unique_ptr<Mailbox>, 2> in_turn;
    std::deque<std::unique_ptr<Mailbox>> read;  // their frames may still be used
    std::vector<std::unique_ptr<Mailbox>> free;
  };
  // Makes room for the messages of the window.
  void begin(Outbox& outbox, const Window& window);

  const std::uint32_t number_;
  LogicalProcess& control_;
  std::vector<LogicalProcess*> processes_;
  std::vector<std::int64_t> next_;   // of each process
  std::int64_t next_sent_ = kNever;  // of the messages of this window
  std::uint64_t windows_ = 0;
  std::vector<Outbox> outboxes_;                     // by worker
  std::vector<std::pair<Said, std::size_t>> lines_;  // and where each ends
  std::string text_;
  std::vector<Written> written_;
};

}  // namespace tiercast::ns3_runtime
