#include "dataplane/switch/bench/link_accuracy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "dataplane/switch/bench/workloads.h"

namespace tiercast::bench {
namespace {

constexpr std::uint32_t kQueuePackets = 50;
constexpr std::int64_t kDelayNs = 5'000'000;
constexpr int kFrames = 20'000;
constexpr double kLoad = 1.5;  // offered load relative to the rate
constexpr double kRates[] = {64e3, 1e6, 6e6, 10e6, 100e6, 1e9, 2.5e9, 10e9};

__extension__ using Wide = unsigned __int128;

class Departures : public engine::Output {
 public:
  struct Departure {
    std::int64_t due_ns;
    std::uint64_t bytes;
  };
  void transmit(std::uint32_t, std::span<const std::byte> frame, std::int64_t due_ns) override {
    all.push_back({due_ns, frame.size()});
  }
  void packet_in(std::span<const std::byte>) override {}
  std::vector<Departure> all;
};

struct Accuracy {
  double rate_error = 0;          // relative error
  std::int64_t deviation_ns = 0;  // the largest deviation
  bool queue_exact = false;
};

Accuracy measure(std::shared_ptr<const engine::Program> program, double rate) {
  Departures out;
  engine::Switch to(std::move(program), {}, out);
  install_entries(to);
  require(to.set_port(1, {}));
  require(to.set_port(2, {.rate_bps = rate, .queue_packets = kQueuePackets, .delay_ns = kDelayNs}));
  std::mt19937_64 random(7);
  double now = 0;
  std::uint64_t offered = 0;
  for (int i = 0; i < kFrames; ++i) {
    const auto frame = tcp_frame(40 + random() % 1461);
    to.receive(1, frame, std::llround(now));
    ++offered;
    now += static_cast<double>(frame.size()) * 8 / rate / kLoad * 1e9;
  }
  while (to.next_event() != engine::Switch::kNever) to.advance(to.next_event());

  Accuracy accuracy;
  const engine::PortStats stats = to.stats(2);
  accuracy.queue_exact = stats.max_queue_packets == kQueuePackets && stats.queue_packets == 0 &&
                         stats.enqueued_packets + stats.dropped_packets == offered &&
                         stats.dropped_packets > 0 && out.all.size() == stats.enqueued_packets;
  // The first frame arrived at 0, and the link has been busy since then.
  const auto bits_per_s = static_cast<std::uint64_t>(rate);
  std::uint64_t bits = 0;
  for (const auto& departure : out.all) {
    bits += departure.bytes * 8;
    const auto ideal = static_cast<std::int64_t>(Wide{bits} * 1'000'000'000 / bits_per_s);
    accuracy.deviation_ns =
        std::max(accuracy.deviation_ns, std::abs(departure.due_ns - kDelayNs - ideal));
  }
  const double seconds = static_cast<double>(out.all.back().due_ns - kDelayNs) * 1e-9;
  accuracy.rate_error = static_cast<double>(bits) / seconds / rate - 1;
  return accuracy;
}

}  // namespace

std::string link_accuracy(const std::shared_ptr<const engine::Program>& program) {
  std::vector<std::string> rates;
  double worst = 0;
  bool exact = true;
  for (const double rate : kRates) {
    const Accuracy a = measure(program, rate);
    worst = std::max(worst, std::abs(a.rate_error));
    exact = exact && a.queue_exact;
    rates.push_back(
        fmt::format("{{\"rate_bps\": {:.0f}, \"rate_error\": {:.3g}, "
                    "\"largest_deviation_ns\": {}, \"queue_exact\": {}}}",
                    rate, a.rate_error, a.deviation_ns, a.queue_exact));
  }
  return fmt::format("{{\"rates\": [{}],\n  \"worst_rate_error\": {:.3g}, \"queues_exact\": {}}}",
                     fmt::join(rates, ",\n   "), worst, exact);
}

}  // namespace tiercast::bench
