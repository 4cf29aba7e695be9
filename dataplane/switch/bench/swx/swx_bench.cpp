// Our engine beside DPDK's SWX pipeline (rte_swx_pipeline), both with native code, from memory, in
// turns in one process (docs/performance.md).
//
//   tiercast-swx-bench generate router.spec router.c
//   tiercast-swx-bench run --libraries DIR --programs tests/data/p4 [--frame 0200..]
//
// DIR has router.so, compiled from what `generate` wrote (scripts/swx.py does it). Prints a JSON
// list: ns of CPU time for a packet, or what leaves for the given frames.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/native/native_code.h"
#include "dataplane/switch/bench/devices.h"
#include "dataplane/switch/bench/main.h"
#include "dataplane/switch/bench/swx/swx_pipeline.h"
#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/clock.h"
#include "dataplane/switch/dpdk/dpdk_port.h"

namespace tiercast::bench {
namespace {

constexpr std::uint64_t kPacketsPerTurn = 100'000;
constexpr int kTurns = 21;                                        // after one that warms the caches
constexpr std::size_t kFrameBytes = 1000, kSmallFrameBytes = 46;  // IP length
constexpr std::uint16_t kInstance = 7;                            // of all replicas

// What both do.
struct Case {
  std::string name;
  std::string program;  // P4 program, and SWX's .spec, without ending
  bool replicates;      // to ports 2 to 5; otherwise the packets go to port 2
  Copies copies;        // SWX's; the engine's copies share what they do not change
  std::size_t ip_length;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"router", "router", false, Copies::kDeep, kFrameBytes},
      {"router, 60 B", "router", false, Copies::kDeep, kSmallFrameBytes},
      {"4 copies, deep", "router", true, Copies::kDeep, kFrameBytes},
      {"4 copies, shared", "router", true, Copies::kShared, kFrameBytes},
  };
  return all;
}

class Ours : private engine::Output {
 public:
  Ours(const Case& one, const std::string& programs) : switch_(load(one, programs), {}, *this) {
    for (std::uint32_t port = 1; port <= kPorts; ++port) require(switch_.set_port(port, {}));
    if (one.replicates) {
      install_router_copies(switch_, kInstance);
    } else {
      install_router_entries(switch_);
    }
    const native::Code code = native::obtain(switch_.program());
    if (code.program == nullptr) throw std::runtime_error(one.program + ": " + code.how);
    switch_.run_native(code.program);
  }
  void run(std::span<const std::byte> frame, std::uint64_t packets) {
    for (std::uint64_t i = 0; i < packets; ++i) switch_.receive(1, frame, now_ += 1000);
  }
  std::vector<SentFrame> pass(std::span<const std::byte> frame) {
    std::vector<SentFrame> all;
    noted_ = &all;
    run(frame, 1);
    noted_ = nullptr;
    return all;
  }
  std::uint64_t sent() const { return sent_; }

 private:
  static std::shared_ptr<const engine::Program> load(const Case& one, const std::string& programs) {
    return load_program(fmt::format("{}/{}.json", programs, one.program));
  }
  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t) override {
    ++sent_;
    if (noted_ != nullptr) noted_->push_back({port, {frame.begin(), frame.end()}});
  }
  void packet_in(std::span<const std::byte>) override {}

  engine::Switch switch_;
  std::int64_t now_ = 0;
  std::uint64_t sent_ = 0;
  std::vector<SentFrame>* noted_ = nullptr;
};

std::unique_ptr<SwxPipeline> swx(const Case& one, const std::string& libraries) {
  const SwxPipeline::Entry forward = {"host",
                                      "match 0x0a000002 action forward port 2 mac 0x020000000003"};
  const SwxPipeline::Entry replicate = {
      "host", fmt::format("match 0x0a000002 action replicate port 2 id {}", kInstance)};
  return std::make_unique<SwxPipeline>(one.name, fmt::format("{}/{}.so", libraries, one.program),
                                       "net_null1", kPorts, one.copies,
                                       std::vector{one.replicates ? replicate : forward});
}

template <class Side>
double turn(Side& side, std::span<const std::byte> frame) {
  const std::int64_t start = vswitch::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  side.run(frame, kPacketsPerTurn);
  return static_cast<double>(vswitch::clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / kPacketsPerTurn;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string measure(const Case& one, Ours& ours, SwxPipeline& peer) {
  const std::vector<std::byte> frame = tcp_frame(one.ip_length);
  std::vector<double> ours_ns, swx_ns, ratios;
  for (int i = 0; i <= kTurns; ++i) {
    const double our_turn = turn(ours, frame), its_turn = turn(peer, frame);
    if (i == 0) continue;
    ours_ns.push_back(our_turn);
    swx_ns.push_back(its_turn);
    ratios.push_back(our_turn / its_turn);
  }
  const std::uint64_t expected = kPacketsPerTurn * (kTurns + 1) * (one.replicates ? kCopies : 1);
  if (ours.sent() != expected || peer.sent() != expected) {
    throw std::runtime_error(fmt::format("{}: {} and {} frames left, expected {}", one.name,
                                         ours.sent(), peer.sent(), expected));
  }
  return fmt::format(
      "{{\"case\": \"{}\", \"frame_bytes\": {}, \"ours_ns\": {:.1f}, \"swx_ns\": {:.1f}, "
      "\"ratio\": {:.3f}}}",
      one.name, frame.size(), median(ours_ns), median(swx_ns), median(ratios));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

std::string json(const std::vector<SentFrame>& frames) {
  std::vector<std::string> all;
  for (const SentFrame& frame : frames) {
    all.push_back(fmt::format("[{}, \"{}\"]", frame.port, hex(frame.bytes)));
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string show(const Case& one, Ours& ours, SwxPipeline& peer,
                 const std::vector<std::string>& frames) {
  std::vector<std::string> all;
  for (const std::string& frame : frames) {
    const std::vector<std::byte> bytes = from_hex(frame);
    all.push_back(fmt::format("{{\"ours\": {}, \"swx\": {}}}", json(ours.pass(bytes)),
                              json(peer.pass(bytes))));
  }
  return fmt::format("{{\"case\": \"{}\", \"frames\": [{}]}}", one.name, fmt::join(all, ", "));
}

struct Options {
  std::string spec, code;           // of `generate`
  std::string libraries, programs;  // of `run`
  std::vector<std::string> frames;
};

void run_cases(const Options& options) {
  std::vector<std::unique_ptr<vswitch::DpdkPort>> devices;
  for (std::uint32_t port = 1; port <= kPorts; ++port) {
    devices.push_back(std::make_unique<vswitch::DpdkPort>(fmt::format("net_null{}", port)));
  }
  std::vector<std::string> results;
  for (const Case& one : cases()) {
    Ours ours(one, options.programs);
    const auto peer = swx(one, options.libraries);
    results.push_back(options.frames.empty() ? measure(one, ours, *peer)
                                             : show(one, ours, *peer, options.frames));
  }
  fmt::print("[{}]\n", fmt::join(results, ",\n "));
}

int run(int argc, char** argv) {
  CLI::App app("Our engine beside DPDK's SWX pipeline, from memory.");
  app.require_subcommand(1);
  Options options;
  CLI::App* generate = app.add_subcommand("generate", "Write SWX's C code of a .spec file");
  generate->add_option("spec", options.spec, "The .spec file")->required();
  generate->add_option("code", options.code, "The .c file to write")->required();
  CLI::App* cases = app.add_subcommand("run", "Print ns of CPU time for a packet");
  cases->add_option("--libraries", options.libraries, "Folder with a .so for each .spec")
      ->required();
  cases->add_option("--programs", options.programs, "Folder with P4 programs' JSON")->required();
  cases->add_option("--frame", options.frames,
                    "Instead: a frame (hexadecimal), of which is shown what leaves either");
  CLI11_PARSE(app, argc, argv);
  start_devices(argv[0], "net_null", "error");
  if (*generate) {
    generate_code(options.spec, options.code);
  } else {
    run_cases(options);
  }
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  return tiercast::bench::run_main("tiercast-swx-bench", argc, argv, tiercast::bench::run);
}
