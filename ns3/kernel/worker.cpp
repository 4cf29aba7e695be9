// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/worker.h"

#include <algorithm>
#include <numeric>

namespace tiercast::ns3_runtime {

void Worker::add(LogicalProcess& process) {
  process.worker_ = this;
  processes_.push_back(&process);
}

void Worker::begin() {
  for (const LogicalProcess* process : processes_) next_.push_back(process->own_next_);
  for (std::size_t i = 0; i < processes_.size(); ++i) processes_[i]->next_ = &next_[i];
  for (Outbox& outbox : outboxes_) {
    for (auto& box : outbox.in_turn) box = std::make_unique<Mailbox>();
  }
}

void Worker::begin(Outbox& outbox, const Window& window) {
  std::unique_ptr<Mailbox>& mine = outbox.in_turn[windows_ % 2];
  outbox.read.push_back(std::move(mine));
  while (!outbox.read.empty() && outbox.read.front()->last_due_ns < window.from_ns) {
    outbox.free.push_back(std::move(outbox.read.front()));
    outbox.read.pop_front();
  }
  if (outbox.free.empty()) outbox.free.push_back(std::make_unique<Mailbox>());
  mine = std::move(outbox.free.back());
  outbox.free.pop_back();
  mine->letters.clear();
  mine->frames.clear();
  mine->last_due_ns = 0;
}

void Worker::run_window(const std::vector<Worker*>& all, const Window& window) {
  const std::size_t reads = windows_ % 2;
  ++windows_;
  next_sent_ = kNever;
  for (Outbox& outbox : outboxes_) begin(outbox, window);
  for (const Worker* from : all) {
    const Mailbox& box = *from->outboxes_[number_].in_turn[reads];
    for (const Mailbox::Letter& letter : box.letters) {
      Message message = letter.message;
      message.frame = std::span(box.frames).subspan(letter.offset, letter.size);
      letter.to->arrive(message);
    }
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (next_[i] < window.ahead_ns) processes_[i]->run_window(window);
  }
}

std::int64_t Worker::next() const {
  return std::accumulate(next_.begin(), next_.end(), next_sent_,
                         [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}

std::size_t Worker::busy_before(std::int64_t before_ns) const {
  std::size_t busy = 0;
  for (const std::int64_t next_ns : next_) busy += next_ns < before_ns ? 1 : 0;
  for (const Outbox& outbox : outboxes_) busy += outbox.in_turn[windows_ % 2]->letters.size();
  return busy;
}

void Worker::stand_at(std::int64_t now_ns) {
  for (LogicalProcess* process : processes_) process->now_ = now_ns;
}

void Worker::send(LogicalProcess& to, const Message& message) {
  next_sent_ = std::min(next_sent_, message.due_ns);
  Mailbox& box = *outboxes_[to.worker_->number_].in_turn[windows_ % 2];
  box.last_due_ns = std::max(box.last_due_ns, message.due_ns);
  box.letters.push_back({&to, message, box.frames.size(), message.frame.size()});
  box.frames.insert(box.frames.end(), message.frame.begin(), message.frame.end());
}

void Worker::write(const LogicalProcess& from, std::string_view line) {
  text_ += line;
  lines_.emplace_back(Said{from.now(), from.number()}, text_.size());
}

const std::vector<Written>& Worker::written() {
  written_.clear();
  std::size_t begin = 0;
  for (const auto& [said, end] : lines_) {
    written_.push_back({said, std::string_view(text_).substr(begin, end - begin)});
    begin = end;
  }
  return written_;
}

void Worker::forget_written() {
  lines_.clear();
  text_.clear();
}

}  // namespace tiercast::ns3_runtime
