// Shared by the fuzz targets: the programs of tests/data/p4, and an output that only counts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::fuzz {

// The programs of tests/data/p4 and p4src, in order of their names.
const std::vector<std::shared_ptr<const engine::Program>>& programs();

// Records everything that a switch reports, so that two switches can be compared.
class Transcript final : public engine::Output {
 public:
  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t due_ns) override;
  void packet_in(std::span<const std::byte> frame) override;
  bool digest(const engine::DigestList& list) override;
  void entries_expired(std::string_view table,
                       std::span<const engine::TableEntry> entries) override;
  void log_message(std::string_view text) override;
  void assertion_failed(std::string_view what) override;
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

// Adds ports 1 to 4: unlimited; slow with a short queue; delayed; rate-limited without a queue
// limit.
void add_ports(engine::Switch& sw);
// Adds groups 1 to 4 and clone sessions 1 to 8, to those ports.
void add_groups(engine::Switch& sw);

}  // namespace tiercast::fuzz
