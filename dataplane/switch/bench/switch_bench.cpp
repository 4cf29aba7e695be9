// Benchmarks that need no network: packets/s of the engine from memory, packets/s over DPDK
// devices, and the exactness of the traffic manager in virtual time. Prints one JSON object
// (docs/performance.md).
//
//   tiercast-switch-bench --program p4src/compiled/tiercast.json --router tests/data/p4/router.json
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <sstream>

#include "dataplane/switch/bench/link_accuracy.h"
#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/clock.h"

namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tiercast::bench {
namespace {

constexpr int kPacketsPerRun = 200'000;
constexpr int kRuns = 11;  // the median counts, because other work on the machine can only add time

class Counter : public engine::Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override { ++frames; }
  void packet_in(std::span<const std::byte>) override {}
  std::uint64_t frames = 0;
};

std::shared_ptr<const engine::Program> load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return engine::Program::load(text, path);
}

// CPU time of this thread: what one core needs, whatever else runs.
std::int64_t cpu_ns() { return vswitch::clock_ns(CLOCK_THREAD_CPUTIME_ID); }

std::string measure(engine::Switch& to, const Counter& out, const std::string& program,
                    const std::string& workload, std::span<const std::byte> frame,
                    unsigned copies) {
  std::int64_t now = 0;
  const auto round = [&] {
    for (int i = 0; i < kPacketsPerRun; ++i) to.receive(1, frame, now += 1000);
  };
  round();  // lets the pool grow and warms the caches
  std::vector<double> ns;
  ns.reserve(kRuns);
  const std::size_t allocated = allocations;
  const std::uint64_t sent = out.frames;
  for (int run = 0; run < kRuns; ++run) {
    const std::int64_t start = cpu_ns();
    round();
    ns.push_back(static_cast<double>(cpu_ns() - start) / kPacketsPerRun);
  }
  const std::uint64_t expected = std::uint64_t{copies} * kPacketsPerRun * kRuns;
  if (out.frames - sent != expected) {
    throw std::runtime_error(fmt::format("{} {}: {} frames left, expected {}", program, workload,
                                         out.frames - sent, expected));
  }
  const double per_packet =
      static_cast<double>(allocations - allocated) / (double{kPacketsPerRun} * kRuns);
  std::sort(ns.begin(), ns.end());
  const double median = ns[ns.size() / 2];
  return fmt::format(
      "{{\"program\": \"{}\", \"workload\": \"{}\", \"frame_bytes\": {}, \"packets_per_s\": "
      "{:.0f}, "
      "\"frames_out_per_s\": {:.0f}, \"ns_per_packet\": {:.1f}, \"ns_fastest_run\": {:.1f}, "
      "\"allocations_per_packet\": {}}}",
      program, workload, frame.size(), 1e9 / median, 1e9 * copies / median, median, ns.front(),
      per_packet);
}

std::vector<std::string> from_memory(const std::string& program, const std::string& router,
                                     const std::string& only) {
  std::vector<std::string> figures;
  for (const Workload& w : workloads()) {
    if (!only.empty() && w.name != only) continue;
    Counter out;
    engine::Switch to(load(program), {}, out);
    for (std::uint32_t port = 1; port <= kPorts; ++port) require(to.set_port(port, {}));
    install_entries(to);
    figures.push_back(measure(to, out, "tiercast", w.name, w.frame, w.copies));
  }
  if (!only.empty()) return figures;
  Counter out;
  engine::Switch to(load(router), {}, out);
  for (std::uint32_t port = 1; port <= kPorts; ++port) require(to.set_port(port, {}));
  install_router_entries(to);
  const Workload& tcp = workload("tcp");
  figures.push_back(measure(to, out, "router", "tcp", tcp.frame, 1));
  return figures;
}

int run(int argc, char** argv) {
  CLI::App app("Figures of the engine and its traffic manager that need no network.");
  std::string program, router, only;
  app.add_option("--program", program, "p4src's bmv2 JSON")->required();
  app.add_option("--router", router, "A plain IPv4 router's bmv2 JSON")->required();
  app.add_option("--only", only, "One workload from memory, for a profiler")
      ->check(CLI::IsMember({"sim_data", "sim_feedback", "tcp"}));
  CLI11_PARSE(app, argc, argv);
  fmt::print("{{\"memory\": [{}],\n", fmt::join(from_memory(program, router, only), ",\n  "));
  fmt::print(" \"traffic_manager\": {}}}\n", link_accuracy(load(program)));
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  try {
    return tiercast::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-switch-bench: {}\n", error.what());
    return 2;
  }
}
