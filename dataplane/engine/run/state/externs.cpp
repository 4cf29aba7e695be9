#include "dataplane/engine/run/state/externs.h"

namespace tiercast::engine {

namespace {

CrcParameters default_crc(Algorithm algorithm) {
  if (algorithm == Algorithm::kCrc16Custom) return {0x8005, 0, 0, true, true};
  if (algorithm == Algorithm::kCrc32Custom) {
    return {0x04c11db7, 0xffffffff, 0xffffffff, true, true};
  }
  return {};
}

std::size_t bytes_of_state(const Image& image) {
  std::size_t bytes = ZeroMemory::bytes_for<Cell>(image.register_cells);
  for (std::uint64_t size : image.counter_sizes) bytes += ZeroMemory::bytes_for<CounterValue>(size);
  return bytes;
}

}  // namespace

Externs::Externs(const Image& image, std::uint64_t seed)
    : memory(bytes_of_state(image)),
      register_cells(memory.take<Cell>(image.register_cells)),
      random_state(seed) {
  for (const RegisterArray& array : image.registers) {
    registers.push_back({register_cells.data() + array.first, array.size, array.stride});
  }
  for (std::uint64_t size : image.counter_sizes) {
    counters.push_back(memory.take<CounterValue>(size));
  }
  for (const MeterArray& array : image.meters) meters.emplace_back(array.size);
  value_sets.resize(image.value_sets.size());
  for (const Calculation& c : image.calculations) crc.push_back(default_crc(c.algorithm));
}

}  // namespace tiercast::engine
