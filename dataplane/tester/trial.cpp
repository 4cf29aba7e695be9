#include "dataplane/tester/trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <rte_lcore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <latch>

#include "agent/clock.h"
#include "agent/interface.h"

namespace tiercast::tester {
namespace {

constexpr unsigned kBuffers = 8191;
constexpr std::uint32_t kUsualPacket = 1500;
constexpr std::uint32_t kFrameOverhead = 18;  // Ethernet's header and FCS, bytes
constexpr auto kNap = std::chrono::microseconds(50);
constexpr int kWaitMs = 10;
constexpr std::uint16_t kBurdenTrial = 0x8000;
constexpr auto kBurdenLead = std::chrono::milliseconds(100);

// A thread that sends until `stop`, which is set if the thread must end because a trial failed.
template <typename Work>
std::jthread sending(std::atomic<bool>& stop, Work work) {
  return std::jthread([&stop, work](const std::stop_token& failed) {
    const std::stop_callback ends(failed, [&stop] { stop.store(true); });
    rte_thread_register();
    work();
    rte_thread_unregister();
  });
}

}  // namespace

Tester::Tester(const std::vector<std::uint16_t>& devices,
               const std::vector<std::uint32_t>& addresses, const Limits& limits)
    : largest_frame_(std::max(limits.largest_ip, kUsualPacket) + kFrameOverhead),
      addresses_(addresses),
      poll_(limits.poll),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  dpdk::PortNeeds needs;
  needs.name = "tester";
  needs.ip_bytes = limits.largest_ip;
  needs.many_frames = true;
  needs.all_groups = true;
  needs.receive_stamps = true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    dpdk::Port& port = *devices_.emplace_back(std::make_unique<dpdk::Port>(devices[i], needs));
    if (!port.interface().empty()) agent::disable_veth_offloads(port.interface());
    receiver::PortAnalyser::Settings settings;
    settings.own = {port.mac(), addresses[i]};
    settings.igmp_version = limits.igmp_version;
    settings.any = true;
    settings.streams = limits.streams;
    settings.memberships = limits.streams;
    settings.transmit_lock = locks_.emplace_back(std::make_unique<std::mutex>()).get();
    analysers_.push_back(std::make_unique<receiver::PortAnalyser>(std::move(settings), port));
  }
  pool_ = devices_.front()->make_pool("tester-traffic", kBuffers, largest_frame_);
  thread_ = std::thread([this] {
    rte_thread_register();
    receive();
    rte_thread_unregister();
  });
}

Tester::~Tester() {
  ending_.store(true);
  const std::uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) return;
  thread_.join();
}

void Tester::receive() {
  dpdk::TscClock clock;
  std::vector<pollfd> descriptors{{wake_.get(), POLLIN, 0}};
  for (const auto& device : devices_) {
    if (device->receive_descriptor() >= 0) {
      descriptors.push_back({device->receive_descriptor(), POLLIN, 0});
    }
  }
  dpdk::SyncTurns sync(clock, poll_);
  while (!ending_.load(std::memory_order_relaxed)) {
    if (queued_.load(std::memory_order_acquire)) {
      const std::lock_guard guard(mutex_);
      for (const auto& work : queue_) work(clock);
      queue_.clear();
      queued_.store(false, std::memory_order_release);
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = read(wake_.get(), &count, sizeof count);
    }
    unsigned taken = 0;
    for (const auto& analyser : analysers_) taken += analyser->poll(clock);
    if (sync.due(clock)) {
      clock.sync();
      for (const auto& analyser : analysers_) analyser->sync_clock(clock.now());
    }
    if (taken > 0 || poll_) continue;
    if (descriptors.size() == devices_.size() + 1) {
      ::poll(descriptors.data(), descriptors.size(), kWaitMs);
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  for (const auto& analyser : analysers_) {
    analyser->leave_all(clock.now());
    analyser->poll(clock);
  }
}

void Tester::on_receiver(const std::function<void(const dpdk::TscClock&)>& work) {
  std::promise<void> done;
  {
    const std::lock_guard guard(mutex_);
    queue_.emplace_back([&](const dpdk::TscClock& clock) {
      work(clock);
      done.set_value();
    });
    queued_.store(true, std::memory_order_release);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto told = write(wake_.get(), &one, sizeof one);
  done.get_future().wait();
}

std::int64_t Tester::change(unsigned port, bool join,
                            const std::vector<receiver::Subscription>& groups) {
  std::int64_t at = 0;
  bool room = true;
  on_receiver([&](const dpdk::TscClock& clock) {
    receiver::PortAnalyser& analyser = *analysers_[port];
    const Time now = clock.now();
    at = now.ns();
    for (const receiver::Subscription& one : groups) {
      if (join) {
        room = analyser.join(now, one) && room;
      } else {
        analyser.leave(now, one);
      }
    }
    analyser.poll(clock);  // sends the reports
  });
  if (!room) throw ConfigError(fmt::format("port {}: no room for {} groups", port, groups.size()));
  return at;
}

std::pair<Sent, Sent> Tester::run(unsigned from, Traffic traffic,
                                  const std::vector<Change>& changes, Duration wait,
                                  ChangeTimes& changed, std::optional<Beside> beside) {
  on_receiver([&](const dpdk::TscClock&) {
    for (const auto& analyser : analysers_) analyser->begin_trial(traffic.trial);
  });
  traffic.source = addresses_[from];
  traffic.source_mac = devices_[from]->mac();
  stop_.store(false);
  Sent sent, sent_beside;
  std::atomic<bool> relieved{false};
  std::latch begun{1};
  // They end before what they use, also where a change is refused.
  std::jthread other;
  if (beside) {
    Traffic& more = beside->traffic;
    more.trial = static_cast<std::uint16_t>(traffic.trial ^ (beside->counts ? 0 : kBurdenTrial));
    more.source = addresses_[beside->from];
    more.source_mac = devices_[beside->from]->mac();
    if (!beside->counts) more.frames = UINT64_MAX;
    std::atomic<bool>& stop = beside->counts ? stop_ : relieved;
    other = sending(stop, [&] {
      sent_beside = send(more, *devices_[beside->from], pool_, *locks_[beside->from], stop);
    });
    if (!beside->counts) std::this_thread::sleep_for(kBurdenLead);
  }
  std::jthread sender = sending(
      stop_, [&] { sent = send(traffic, *devices_[from], pool_, *locks_[from], stop_, &begun); });
  begun.wait();
  const Time start = agent::monotonic_now();
  for (const Change& one : changes) {
    while (!stop_.load() && agent::monotonic_now() - start < one.at) {
      const Duration left = one.at - (agent::monotonic_now() - start);
      std::this_thread::sleep_for(std::chrono::nanoseconds(
          std::min<std::int64_t>(std::max<std::int64_t>(left.ns(), 0), 20'000'000)));
    }
    changed.push_back(change(one.port, one.join, one.groups));
  }
  sender.join();
  relieved.store(true);
  if (other.joinable()) other.join();
  std::this_thread::sleep_for(std::chrono::nanoseconds(wait.ns()));
  // What has arrived counts, even if the receiving thread had no CPU.
  on_receiver([this](const dpdk::TscClock& clock) {
    for (const auto& analyser : analysers_) {
      while (analyser->poll(clock) > 0) {
      }
    }
  });
  return {sent, sent_beside};
}

}  // namespace tiercast::tester
