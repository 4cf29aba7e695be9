// A conservative parallel simulation: logical processes on threads, in windows of virtual time.
// SPDX-License-Identifier: GPL-2.0-only
//
// What a process does in a window can have an effect on another one after the window's end at the
// earliest, because it travels at least so long. So all processes of a window run side by side, and
// between windows their messages are handed on. Everything is ordered by time and by numbers of
// processes and sources, so any number of threads gives the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ns3/kernel/logical_process.h"
#include "ns3/kernel/worker.h"

namespace tiercast::ns3_runtime {

class Kernel {
 public:
  // `thread_of`: of each process, by its number: 0 to the number of threads - 1. `window_ns`: the
  // longest window, above 0. `output` gets what processes write. Where a window has
  // fewer busy processes and messages than `worth_threads`, to wake threads takes longer than to
  // run all on one.
  Kernel(const std::vector<std::uint32_t>& thread_of, std::int64_t window_ns,
         std::function<void(std::string_view)> output, std::size_t worth_threads = 128);
  ~Kernel();

  // What every process has done comes before.
  std::int64_t now() const { return now_; }
  LogicalProcess& process(std::uint32_t number) { return *processes_.at(number); }
  // What decides for the whole network: it runs after the others' window, and what it does must
  // have an effect on them no earlier than a window later.
  LogicalProcess& control() { return control_; }
  // Calls `what` when all processes have come to that time, and have done nothing of that instant.
  // It may look at and change any of them. Of several the one that was added first comes first. To
  // be called before run() or in a pause, since windows end at the pauses that are known.
  void pause_at(std::int64_t at_ns, std::function<void()> what);

  // Until all processes have come to that time. Rethrows what any of them throws.
  void run(std::int64_t end_ns);

 private:
  // Sets the clocks of all processes.
  void stand();
  void collect();

  const std::int64_t window_ns_;
  const std::function<void(std::string_view)> output_;
  const std::size_t worth_threads_;
  std::vector<std::unique_ptr<LogicalProcess>> processes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  LogicalProcess control_;
  LogicalProcess pauses_;
  std::int64_t now_ = 0;    // every process has done what comes before
  std::int64_t ahead_ = 0;  // and has sent the messages that are due before
  std::vector<Asked> asked_;
  std::vector<Written> written_;
};

}  // namespace tiercast::ns3_runtime
