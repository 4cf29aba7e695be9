// Packets per second through p4src's program on one core, with frames from memory, and allocations
// per packet.
//
//   ninja -C build engine_bench && build/dataplane/engine/engine_bench
#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>

#include "dataplane/engine/api/switch.h"
#include "dataplane/engine/bench/allocations.h"

namespace tiercast::engine {
namespace {

class Sink : public Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override { ++frames; }
  void packet_in(std::span<const std::byte>) override { ++frames; }
  std::size_t frames = 0;
};

void put(std::vector<std::byte>& frame, std::uint64_t value, unsigned bytes) {
  while (bytes > 0) frame.push_back(static_cast<std::byte>(value >> --bytes * 8));
}

// An IPv4 UDP frame to port 5500 with a correct header checksum.
std::vector<std::byte> frame_to(std::uint32_t destination, std::size_t size) {
  std::vector<std::byte> f;
  put(f, 0x020000000001, 6);
  put(f, 0x020000000002, 6);
  put(f, 0x0800, 2);
  const std::uint64_t words[] = {
      0x4501, size - 14, 0, 0, 0x4011, 0, 0x0a00, 0x0001, destination >> 16, destination & 0xffff};
  std::uint64_t sum = 0;
  for (std::uint64_t w : words) sum += w;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  for (int i = 0; i < 10; ++i) put(f, i == 5 ? ~sum & 0xffff : words[i], 2);
  put(f, 5500, 2);
  put(f, 5500, 2);
  put(f, size - 34, 2);
  put(f, 0, 2);
  f.resize(size);
  return f;
}

Bytes big_endian(std::uint64_t value, unsigned bytes) {
  Bytes out;
  while (bytes > 0) out.push_back(static_cast<char>(value >> --bytes * 8));
  return out;
}

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

class Rig {
 public:
  Rig() : sw_(load(), {}, sink) {
    for (std::uint32_t port = 1; port <= 8; ++port) must(sw_.set_port(port, {}));
    for (std::uint32_t host = 1; host <= 1000; ++host) {
      must(sw_.insert_entry("ipv4_host", {{FieldMatch::exact(big_endian(0x0a010000 + host, 4))},
                                          0,
                                          {"forward", {big_endian(2, 2), big_endian(2, 6)}},
                                          {}}));
    }
    for (std::uint32_t length = 9; length <= 24; ++length) {
      must(sw_.insert_entry("ipv4_lpm", {{FieldMatch::lpm(big_endian(0x0b000000, 4), length)},
                                         0,
                                         {"forward", {big_endian(3, 2), big_endian(3, 6)}},
                                         {}}));
    }
    must(sw_.insert_entry("ipv4_multicast", {{FieldMatch::exact(big_endian(0xefc00008, 4))},
                                             0,
                                             {"replicate", {big_endian(1, 2)}},
                                             {}}));
    must(sw_.insert_multicast_group(1, {{2, 1}, {3, 1}, {4, 1}, {5, 1}}));
  }
  Sink sink;
  Switch& sw() { return sw_; }

 private:
  static std::shared_ptr<const Program> load() {
    const std::string path = std::string(TIERCAST_SOURCE) + "/p4src/compiled/tiercast.json";
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return Program::load(text.str(), path);
  }
  Switch sw_;
};

void run(benchmark::State& state, std::uint32_t destination, double rate_bps) {
  Rig rig;
  for (std::uint32_t port = 2; port <= 5; ++port) {
    must(rig.sw().set_port(port, {.rate_bps = rate_bps, .queue_packets = 50}));
  }
  const auto frame = frame_to(destination, static_cast<std::size_t>(state.range(0)));
  std::int64_t now = 0;
  for (int i = 0; i < 10000; ++i) rig.sw().receive(1, frame, now += 1000);
  const std::size_t allocated = bench::allocations(), sent = rig.sink.frames;
  for (auto _ : state) rig.sw().receive(1, frame, now += 1000);
  const auto packets = static_cast<double>(state.iterations());
  state.counters["allocations/packet"] =
      static_cast<double>(bench::allocations() - allocated) / packets;
  state.counters["sent/packet"] = static_cast<double>(rig.sink.frames - sent) / packets;
  state.SetItemsProcessed(state.iterations());
}

void exact(benchmark::State& state) { run(state, 0x0a010001, 0); }
void longest_prefix(benchmark::State& state) { run(state, 0x0b400001, 0); }
void multicast_to_four(benchmark::State& state) { run(state, 0xefc00008, 0); }
void saturated_link(benchmark::State& state) { run(state, 0x0a010001, 1e9); }
BENCHMARK(exact)->Arg(64)->Arg(1014);
BENCHMARK(longest_prefix)->Arg(64);
BENCHMARK(multicast_to_four)->Arg(1014);
BENCHMARK(saturated_link)->Arg(1014);

}  // namespace
}  // namespace tiercast::engine

BENCHMARK_MAIN();
