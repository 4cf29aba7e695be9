// Benchmarks that need no network: packets/s of the engine from memory, packets/s over DPDK
// devices, and the exactness of the traffic manager in virtual time. Prints one JSON object
// (docs/performance.md).
//
//   tiercast-switch-bench --program p4src/compiled/tiercast.json --router tests/data/p4/router.json
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "dataplane/engine/bench/allocations.h"
#include "dataplane/native/native_code.h"
#include "dataplane/switch/bench/link_accuracy.h"
#include "dataplane/switch/bench/main.h"
#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/clock.h"

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

// CPU time of this thread: what one core needs, whatever else runs.
std::int64_t cpu_ns() { return vswitch::clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// A switch, and how long it needs for a packet.
struct Form {
  Form(const std::shared_ptr<const engine::Program>& program, bool native)
      : sw(program, {}, out), name(native ? "native" : "interpreter") {
    for (std::uint32_t port = 1; port <= kPorts; ++port) require(sw.set_port(port, {}));
    if (!native) return;
    const native::Code code = native::obtain(*program);
    if (code.program == nullptr) throw std::runtime_error(program->name() + ": " + code.how);
    sw.run_native(code.program);
  }
  void round(std::span<const std::byte> frame) {
    const std::int64_t start = cpu_ns();
    for (int i = 0; i < kPacketsPerRun; ++i) sw.receive(1, frame, now += 1000);
    ns.push_back(static_cast<double>(cpu_ns() - start) / kPacketsPerRun);
  }
  Counter out;
  engine::Switch sw;
  std::string name;
  std::int64_t now = 0;
  std::vector<double> ns;
};

std::string figures(Form& form, const std::string& program, const Workload& w, unsigned copies,
                    std::size_t allocated) {
  if (form.out.frames != std::uint64_t{copies} * kPacketsPerRun * (kRuns + 1)) {
    throw std::runtime_error(fmt::format("{} {}, {}: {} frames left, expected {} for each", program,
                                         w.name, form.name, form.out.frames, copies));
  }
  const double per_packet = static_cast<double>(allocated) / (double{kPacketsPerRun} * kRuns * 2);
  form.ns.erase(form.ns.begin());  // it let the pool grow and warmed the caches
  std::sort(form.ns.begin(), form.ns.end());
  const double median = form.ns[form.ns.size() / 2];
  return fmt::format(
      "{{\"program\": \"{}\", \"workload\": \"{}\", \"form\": \"{}\", \"frame_bytes\": {}, "
      "\"packets_per_s\": {:.0f}, \"frames_out_per_s\": {:.0f}, \"ns_per_packet\": {:.1f}, "
      "\"ns_fastest_run\": {:.1f}, \"allocations_per_packet\": {}}}",
      program, w.name, form.name, w.frame.size(), 1e9 / median, 1e9 * copies / median, median,
      form.ns.front(), per_packet);
}

// The interpreter and native code in turns.
void measure(const std::string& name, const std::shared_ptr<const engine::Program>& program,
             void (*install)(engine::Switch&), const Workload& w, unsigned copies,
             std::vector<std::string>& out) {
  Form interpreter(program, false), native(program, true);
  for (Form* form : {&interpreter, &native}) {
    install(form->sw);
    form->ns.reserve(kRuns + 1);
    form->round(w.frame);
  }
  const std::size_t before = allocations();
  for (int run = 0; run < kRuns; ++run) {
    for (Form* form : {&interpreter, &native}) form->round(w.frame);
  }
  const std::size_t allocated = allocations() - before;
  for (Form* form : {&interpreter, &native})
    out.push_back(figures(*form, name, w, copies, allocated));
}

std::vector<std::string> from_memory(const std::string& program, const std::string& router,
                                     const std::string& only) {
  std::vector<std::string> all;
  for (const Workload& w : workloads()) {
    if (!only.empty() && w.name != only) continue;
    measure("tiercast", load_program(program), install_entries, w, w.copies, all);
  }
  if (!only.empty()) return all;
  const Workload& tcp = workload("tcp");
  measure("router", load_program(router), install_router_entries, tcp, 1, all);
  return all;
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
  fmt::print(" \"traffic_manager\": {}}}\n", link_accuracy(load_program(program)));
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  return tiercast::bench::run_main("tiercast-switch-bench", argc, argv, tiercast::bench::run);
}
