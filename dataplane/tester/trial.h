// The ports of a tester, and trials over them (RFC 2544 section 23): test frames leave through one
// port, and all ports account for what arrives.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/receiver/port/port_analyser.h"
#include "dataplane/tester/traffic.h"

namespace tiercast::tester {

// Joins or leaves while a trial's frames are sent.
struct Change {
  Duration at;  // after the first frame
  unsigned port = 0;
  bool join = true;
  std::vector<receiver::Subscription> groups;
};

// Other traffic at the same time, from another port.
struct Beside {
  unsigned from = 0;
  Traffic traffic;
  // Whether it belongs to the trial (RFC 2544 section 14, bidirectional): it begins with the
  // trial's own, the ports account for it, and its number of frames counts. Otherwise it is a
  // burden, which begins before and ends after.
  bool counts = false;
};

// When each change was made: its first report was handed to the device, CLOCK_MONOTONIC.
using ChangeTimes = std::vector<std::int64_t>;

class Tester {
 public:
  struct Limits {
    std::uint32_t streams = 0;     // on each port
    std::uint32_t largest_ip = 0;  // bytes of the largest packet; at least 1,500 are allowed
    int igmp_version = 3;
    bool poll = false;
  };
  // `devices`: of the EAL, in the order of the tester's ports. `addresses`: of the ports, host
  // order. ConfigError: a device cannot be set up.
  Tester(const std::vector<std::uint16_t>& devices, const std::vector<std::uint32_t>& addresses,
         const Limits& limits);
  ~Tester();

  // Bytes of the largest frame that it can send, with FCS.
  std::size_t largest_frame() const { return largest_frame_; }
  std::size_t ports() const { return analysers_.size(); }
  const receiver::PortAnalyser& port(std::size_t i) const { return *analysers_[i]; }
  std::uint32_t address(std::size_t i) const { return addresses_[i]; }

  // Joins or leaves at once. ConfigError: no room for so many.
  std::int64_t change(unsigned port, bool join, const std::vector<receiver::Subscription>& groups);
  // Sends the traffic from port `from` with the changes in between, waits for the frames that are
  // still on their way (`wait`), and returns what was sent, and what was sent beside. The accounts
  // are then final. ConfigError: a change is refused; the trial has then ended.
  std::pair<Sent, Sent> run(unsigned from, Traffic traffic, const std::vector<Change>& changes,
                            Duration wait, ChangeTimes& changed,
                            std::optional<Beside> beside = std::nullopt);
  // Ends a run() early.
  void stop() { stop_.store(true); }

 private:
  void receive();
  // Has the receiving thread do something, and waits for it.
  void on_receiver(const std::function<void(const dpdk::TscClock&)>& work);

  const std::size_t largest_frame_;
  std::vector<std::uint32_t> addresses_;
  const bool poll_;
  std::vector<std::unique_ptr<dpdk::Port>> devices_;
  std::vector<std::unique_ptr<std::mutex>> locks_;  // of transmission, by port
  std::vector<std::unique_ptr<receiver::PortAnalyser>> analysers_;
  rte_mempool* pool_ = nullptr;  // of what is sent
  std::atomic<bool> stop_{false};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // guards the queue
  std::deque<std::function<void(const dpdk::TscClock&)>> queue_;
  std::atomic<bool> queued_{false};
  UniqueFd wake_;
  std::thread thread_;
};

}  // namespace tiercast::tester
