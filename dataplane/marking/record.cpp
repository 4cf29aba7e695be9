#include "dataplane/marking/record.h"

#include <array>
#include <bit>
#include <cstring>

static_assert(std::endian::native == std::endian::little);

namespace tiercast::marking {

void write_record(std::FILE* to, const PacketRecord& record,
                  std::span<const std::uint64_t> values) {
  std::array<char, 28> bytes{};
  std::memcpy(bytes.data(), &record.arrival_ns, 8);
  std::memcpy(bytes.data() + 8, &record.wait_ns, 8);
  std::memcpy(bytes.data() + 16, &record.found, 4);
  std::memcpy(bytes.data() + 20, &record.left_behind, 4);
  std::memcpy(bytes.data() + 24, &record.traffic_class, 2);
  std::memcpy(bytes.data() + 26, &record.fate, 1);
  std::fwrite(bytes.data(), bytes.size(), 1, to);
  std::fwrite(values.data(), 8, values.size(), to);
}

}  // namespace tiercast::marking
