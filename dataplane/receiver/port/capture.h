// Writes frames of chosen streams to a capture file. The receiving thread does not wait for it: it
// hands over buffers, which a thread of this object writes and frees.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "base/counter.h"
#include "dataplane/dpdk/files.h"
#include "dataplane/dpdk/ring.h"

namespace tiercast::receiver {

class Capture {
 public:
  static constexpr std::size_t kWaiting = 1024;  // frames that wait for the thread, at most

  // ConfigError: the file cannot be created.
  explicit Capture(const std::string& path);
  ~Capture() { finish(); }

  // Writes what was handed over, and closes the file. Nothing may be handed over afterwards.
  // False: something of what was handed over, or the file itself, could not be written; standard
  // error has said why.
  bool finish();

  // For receiving threads. True: the buffer is no longer the caller's. False: there is no room,
  // which is counted.
  bool take(rte_mbuf* mbuf, std::int64_t arrival_ns);
  std::uint64_t written() const { return written_.get(); }  // the kernel has them
  std::uint64_t left_out() const { return no_room_.get() + lost_.get(); }

 private:
  struct Frame {
    rte_mbuf* mbuf = nullptr;
    std::int64_t arrival_ns = 0;
  };
  void write_all();
  void write(std::span<const Frame> frames);
  // For the thread. After a first failure nothing more is tried.
  template <typename Step>
  bool attempt(Step step);

  dpdk::PcapFile file_;
  std::mutex filling_;  // several threads may hand over
  dpdk::Ring<Frame> ring_{kWaiting};
  const std::int64_t to_realtime_ns_;
  std::atomic<bool> ending_{false};
  bool failed_ = false;  // the thread's, until it has ended
  Counter written_, no_room_, lost_;
  std::thread thread_;
};

}  // namespace tiercast::receiver
