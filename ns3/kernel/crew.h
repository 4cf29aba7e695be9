// Threads that do a job together, again and again.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace tiercast::ns3_runtime {

class Crew {
 public:
  // Starts threads - 1 threads. `job` is called with the number of the thread, 0 to `threads` - 1;
  // 0 is the caller of work().
  Crew(std::uint32_t threads, std::function<void(std::uint32_t)> job);
  ~Crew();

  // Does the job once on all threads, and waits until all have done it. What they wrote before, and
  // what the caller did, is visible to all. Throws what the job of the lowest number has thrown.
  void work();

 private:
  void serve(std::uint32_t number);
  void do_job(std::uint32_t number) noexcept;

  const std::function<void(std::uint32_t)> job_;
  std::atomic<std::uint32_t> turn_ = 0;  // how often work() was called
  std::atomic<std::uint32_t> busy_ = 0;  // threads that have not finished this turn
  std::atomic<bool> over_ = false;
  std::vector<std::exception_ptr> thrown_;  // by number
  std::vector<std::thread> threads_;
};

}  // namespace tiercast::ns3_runtime
