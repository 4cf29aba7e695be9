// What the fuzz targets share: the programs of tests/data/p4, and an output that only counts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/api/switch.h"

namespace tiercast::fuzz {

// Those of tests/data/p4 and p4src, in the order of their names.
const std::vector<std::shared_ptr<const engine::Program>>& programs();

// Remembers all that a switch says, so that two can be compared.
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

// Ports 1 to 4: unlimited, slow with a short queue, delayed, and rate-limited without queue limit.
void add_ports(engine::Switch& sw);
// Groups 1 to 4 and clone sessions 1 to 8 onto those ports.
void add_groups(engine::Switch& sw);

}  // namespace tiercast::fuzz
