// tiercast-protocols-bench: the cost of a feedback packet, a timer and a receiver's packet in each
// scheme's cores, the memory that the cores take, and the cost of a departure in the pacer. Prints
// JSON; scripts/bench_protocols.py runs it.
//
//   tiercast-protocols-bench [SCHEME RECEIVERS | pacer LAYERS]...
//                                              default: every scheme with 1, 1,000, 100,000
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "protocols/bench/group.h"
#include "protocols/pacer/pacer.h"

namespace {

using namespace tiercast;

constexpr Duration kVirtualTime = Duration::seconds(60);
constexpr std::uint64_t kFeedback = 1'000'000;
constexpr Duration kWallTime = Duration::seconds(8);

void print_cost(const char* name, const bench::Cost& cost) {
  std::printf("\"%s_calls\": %llu, \"%s_ns\": %.1f, ", name,
              static_cast<unsigned long long>(cost.calls), name, cost.each());
}

void measure(const Scheme& scheme, std::uint32_t receivers) {
  bench::GroupConfig config;
  config.receivers = receivers;
  config.layers = scheme.layered ? 5 : 1;
  bench::Group group(scheme, config);
  const bench::GroupCosts costs = group.run(kVirtualTime, kFeedback, kWallTime);
  std::printf("{\"scheme\": \"%s\", \"receivers\": %u, ", std::string(scheme.name).c_str(),
              receivers);
  print_cost("sender_feedback", costs.sender_feedback);
  print_cost("sender_timer", costs.sender_timer);
  print_cost("sender_data", costs.sender_data);
  print_cost("receiver_packet", costs.receiver_packet);
  print_cost("receiver_timer", costs.receiver_timer);
  std::printf(
      "\"allocations\": %llu, \"sender_bytes\": %zu, \"receiver_bytes\": %zu, "
      "\"virtual_s\": %.3f}\n",
      static_cast<unsigned long long>(costs.allocations), costs.sender_bytes, costs.receiver_bytes,
      costs.virtual_s);
  std::fflush(stdout);
}

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

// Prints the CPU time of a departure in ns: a million departures, one every microsecond, from
// `layers` layers of equal rate.
void measure_pacer(std::uint32_t layers) {
  constexpr int kDepartures = 1'000'000;
  constexpr std::uint32_t kBytes = 1000;
  Pacer pacer(layers);
  for (Pacer::Layer layer = 0; layer < layers; ++layer) {
    // Spread over the interval, like layers that were started one after another.
    pacer.set_rate(Time::nanoseconds(1000 * static_cast<std::int64_t>(layer)), layer,
                   Rate::bytes_per_second(1e6 / layers * kBytes), kBytes);
  }
  const double before = cpu_ns();
  for (int left = kDepartures; left > 0;) {
    const Time now = pacer.next_departure();
    while (pacer.pop(now)) --left;
  }
  std::printf("{\"layers\": %u, \"departure_ns\": %.1f}\n", layers,
              (cpu_ns() - before) / kDepartures);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc % 2 == 0) {
    std::fprintf(stderr, "usage: tiercast-protocols-bench [SCHEME RECEIVERS | pacer LAYERS]...\n");
    return 2;
  }
  try {
    for (int i = 1; i < argc; i += 2) {
      const bool pacer = std::string(argv[i]) == "pacer";
      const long number = std::strtol(argv[i + 1], nullptr, 10);
      if (number < 1 || number > 1'000'000) {
        throw ConfigError(std::string(pacer ? "layers" : "receivers") + ": '" + argv[i + 1] +
                          "' is not in 1..1000000");
      }
      const auto count = static_cast<std::uint32_t>(number);
      pacer ? measure_pacer(count) : measure(find_scheme(argv[i]), count);
    }
    if (argc > 1) return 0;
    for (const Scheme& scheme : schemes()) {
      for (const std::uint32_t receivers : {1u, 1000u, 100'000u}) measure(scheme, receivers);
    }
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "tiercast-protocols-bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
