#include "dataplane/receiver/port/capture.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <span>

#include "agent/clock.h"
#include "protocols/base/units.h"

namespace tiercast::receiver {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);

std::int64_t realtime_minus_monotonic_ns() {
  const auto realtime = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(realtime).count() -
         agent::monotonic_now().ns();
}

}  // namespace

Capture::Capture(const std::string& path)
    : file_("--pcap", path),
      to_realtime_ns_(realtime_minus_monotonic_ns()),
      thread_([this] { write_all(); }) {}

bool Capture::finish() {
  if (thread_.joinable()) {
    ending_.store(true, std::memory_order_release);
    thread_.join();
  }
  return !failed_;
}

bool Capture::take(rte_mbuf* mbuf, std::int64_t arrival_ns) {
  const std::lock_guard guard(filling_);
  if (ring_.push({mbuf, arrival_ns})) return true;
  no_room_.add();
  return false;
}

void Capture::write_all() {
  std::array<Frame, 32> frames;
  for (;;) {
    const bool ending = ending_.load(std::memory_order_acquire);
    const std::size_t count = ring_.pop(std::span<Frame>(frames));
    if (count > 0) {
      write(std::span(frames).first(count));
      continue;
    }
    if (ending) break;
    std::this_thread::sleep_for(kPause);
  }
  attempt([this] { file_.close(); });
}

void Capture::write(std::span<const Frame> frames) {
  const bool written = attempt([&] {
    for (const Frame& frame : frames) {
      file_.write(
          frame.arrival_ns + to_realtime_ns_,
          {rte_pktmbuf_mtod(frame.mbuf, const std::byte*), rte_pktmbuf_data_len(frame.mbuf)});
    }
    file_.flush();
  });
  (written ? written_ : lost_).add(frames.size());
  for (const Frame& frame : frames) rte_pktmbuf_free(frame.mbuf);
}

template <typename Step>
bool Capture::attempt(Step step) {
  if (failed_) return false;
  try {
    step();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "tiercast-recv: {}\n", error.what());
    failed_ = true;
  }
  return !failed_;
}

}  // namespace tiercast::receiver
