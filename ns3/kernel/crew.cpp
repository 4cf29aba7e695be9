// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/crew.h"

#include <utility>

namespace tiercast::ns3_runtime {
namespace {

// A window takes some microseconds or more, and to sleep and wake up takes as long. Where another
// program has the other processor, to spin longer would waste this one.
constexpr int kSpins = 2000;

// Waits until the value is another one.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t is) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != is) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(is, std::memory_order_acquire);
}

}  // namespace

Crew::Crew(std::uint32_t threads, std::function<void(std::uint32_t)> job)
    : job_(std::move(job)), thrown_(threads) {
  for (std::uint32_t number = 1; number < threads; ++number) {
    threads_.emplace_back(&Crew::serve, this, number);
  }
}

Crew::~Crew() {
  over_.store(true, std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::do_job(std::uint32_t number) noexcept {
  try {
    job_(number);
  } catch (...) {
    thrown_[number] = std::current_exception();
  }
}

void Crew::serve(std::uint32_t number) {
  for (std::uint32_t turn = 0;; ++turn) {
    wait_while(turn_, turn);
    if (over_.load(std::memory_order_relaxed)) return;
    do_job(number);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void Crew::work() {
  if (!threads_.empty()) {
    busy_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
  }
  do_job(0);
  while (const std::uint32_t busy = busy_.load(std::memory_order_acquire)) wait_while(busy_, busy);
  for (std::exception_ptr& thrown : thrown_) {
    if (thrown != nullptr) std::rethrow_exception(std::exchange(thrown, nullptr));
  }
}

}  // namespace tiercast::ns3_runtime
