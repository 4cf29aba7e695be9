// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/kernel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ns3/kernel/crew.h"

namespace tiercast::ns3_runtime {

Kernel::Kernel(const std::vector<std::uint32_t>& thread_of, std::int64_t window_ns,
               std::function<void(std::string_view)> output, std::size_t worth_threads)
    : window_ns_(window_ns),
      output_(std::move(output)),
      worth_threads_(worth_threads),
      control_(static_cast<std::uint32_t>(thread_of.size())),
      pauses_(control_.number()) {
  const std::uint32_t threads =
      thread_of.empty() ? 1 : *std::max_element(thread_of.begin(), thread_of.end()) + 1;
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    workers_.push_back(std::make_unique<Worker>(thread, threads, control_));
  }
  for (const std::uint32_t thread : thread_of) {
    const auto number = static_cast<std::uint32_t>(processes_.size());
    processes_.push_back(std::make_unique<LogicalProcess>(number));
    workers_[thread]->add(*processes_.back());
  }
  for (const auto& worker : workers_) worker->begin();
}

Kernel::~Kernel() = default;

void Kernel::pause_at(std::int64_t at_ns, std::function<void()> what) {
  pauses_.at(at_ns, std::move(what));
}

void Kernel::stand() {
  for (const auto& worker : workers_) worker->stand_at(now_);
  control_.now_ = now_;
}

void Kernel::collect() {
  for (const auto& worker : workers_) {
    std::move(worker->asked.begin(), worker->asked.end(), std::back_inserter(asked_));
    worker->asked.clear();
    const std::vector<Written>& lines = worker->written();
    written_.insert(written_.end(), lines.begin(), lines.end());
  }
  std::stable_sort(asked_.begin(), asked_.end());
  for (Asked& one : asked_) control_.at(one.time_ns, std::move(one.what));
  asked_.clear();
  std::stable_sort(written_.begin(), written_.end());
  for (const Written& one : written_) output_(one.line);
  written_.clear();
  for (const auto& worker : workers_) worker->forget_written();
}

void Kernel::run(std::int64_t end_ns) {
  std::vector<Worker*> all;
  for (const auto& worker : workers_) all.push_back(worker.get());
  Window window{};
  const auto run_window = [&](std::uint32_t thread) { all[thread]->run_window(all, window); };
  Crew crew(static_cast<std::uint32_t>(workers_.size()), run_window);
  const auto is_worth_threads = [&] {
    std::size_t busy = 0;
    for (const Worker* worker : all) busy += worker->busy_before(ahead_);
    return busy >= worth_threads_;
  };
  for (;;) {
    if (pauses_.next_event() == now_ || now_ == end_ns) stand();
    pauses_.run_until(now_ + 1);
    if (now_ == end_ns) return;
    // Where nothing happens for longer than a window, one window goes on until something does.
    const std::int64_t pause = std::min(pauses_.next_event(), end_ns);
    std::int64_t next = control_.next_event();
    for (const Worker* worker : all) next = std::min(next, worker->next());
    const std::int64_t until = std::min(std::max(ahead_, next), pause);
    ahead_ = std::min(until + window_ns_, pause);
    window = {now_, until, ahead_, pause};
    if (all.size() == 1 || is_worth_threads()) {
      crew.work();
    } else {
      for (std::uint32_t thread = 0; thread < all.size(); ++thread) run_window(thread);
    }
    collect();
    control_.run_until(until);
    now_ = until;
  }
}

}  // namespace tiercast::ns3_runtime
