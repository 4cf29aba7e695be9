// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/logical_process.h"

#include <tuple>
#include <utility>

#include "ns3/kernel/worker.h"

namespace tiercast::ns3_runtime {

thread_local LogicalProcess* LogicalProcess::running_ = nullptr;

// An event of at(), which is used again once it has run.
class LogicalProcess::Once final : public Event {
 public:
  explicit Once(LogicalProcess& of) : of_(of) {}
  void set(std::function<void()> what) { what_ = std::move(what); }
  void run() override {
    const auto what = std::exchange(what_, nullptr);
    of_.free_.push_back(this);
    what();
  }

 private:
  LogicalProcess& of_;
  std::function<void()> what_;
};

LogicalProcess::LogicalProcess(std::uint32_t number) : number_(number) {}
LogicalProcess::~LogicalProcess() = default;

void LogicalProcess::at(std::int64_t at_ns, std::function<void()> what) {
  if (free_.empty()) free_.push_back(once_.emplace_back(std::make_unique<Once>(*this)).get());
  Once* const event = free_.back();
  free_.pop_back();
  event->set(std::move(what));
  schedule(*event, at_ns);
}

void LogicalProcess::send(LogicalProcess& to, const Message& message) {
  if (running_ != nullptr) return worker_->send(to, message);
  Message kept = message;
  kept.frame = to.kept_.emplace_back(message.frame.begin(), message.frame.end());
  to.arrive(kept);
}

void LogicalProcess::ask_control(std::function<void()> what) {
  if (running_ == nullptr) return worker_->control().at(now_, std::move(what));
  worker_->ask_control(*this, std::move(what));
}

void LogicalProcess::write(std::string_view line) { worker_->write(*this, line); }

void LogicalProcess::arrive(const Message& message) {
  arrivals_.push_back(message);
  *next_ = std::min(*next_, message.due_ns);
}

void LogicalProcess::run_window(const Window& window) {
  running_ = this;
  run_until(window.until_ns);
  // All that is known, so that the process need not be visited again for each message.
  for (Source* source : sources_) source->hand_over(window.pause_ns);
  *next_ = std::min(queue_.next(), arrivals_.empty() ? kNever : arrivals_.front().due_ns);
  running_ = nullptr;
}

void LogicalProcess::sort_arrivals() {
  const auto before = [](const Message& a, const Message& b) {
    return std::tie(a.due_ns, a.source, a.sequence) < std::tie(b.due_ns, b.source, b.sequence);
  };
  const auto fresh = arrivals_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  if (fresh == arrivals_.end()) return;
  std::sort(fresh, arrivals_.end(), before);
  const auto from = std::upper_bound(arrivals_.begin(), fresh, *fresh, before);
  std::inplace_merge(from, fresh, arrivals_.end(), before);
}

void LogicalProcess::run_until(std::int64_t until_ns) {
  sort_arrivals();
  std::uint64_t numbers_before = queue_.next_number();  // of events scheduled before now_
  std::size_t arrived = 0;
  for (;;) {
    const std::int64_t event_ns = queue_.next();
    const std::int64_t arrival_ns = arrived < arrivals_.size() ? arrivals_[arrived].due_ns : kNever;
    const std::int64_t next_ns = std::min(event_ns, arrival_ns);
    if (next_ns >= until_ns) break;
    if (next_ns > now_) {
      now_ = next_ns;
      numbers_before = queue_.next_number();
    }
    if (event_ns == next_ns && (arrival_ns > next_ns || queue_.first_number() < numbers_before)) {
      queue_.take().run();
    } else {
      const Message& message = arrivals_[arrived++];
      message.receiver->receive(message.port, message.frame);
    }
  }
  arrivals_.erase(arrivals_.begin(), arrivals_.begin() + static_cast<std::ptrdiff_t>(arrived));
  sorted_ = arrivals_.size();
  if (arrivals_.empty()) kept_.clear();
}

}  // namespace tiercast::ns3_runtime
