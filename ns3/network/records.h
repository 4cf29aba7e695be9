// Writes what a run reports, as JSON lines on standard output.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/json_row.h"
#include "protocols/core/core.h"

namespace tiercast::ns3_runtime {

struct TextField {
  std::string_view name, value;
};

class Records {
 public:
  // `every_ns`: the shortest time between two regular records of a kind. `silent`: writes nothing,
  // for agents that the scenario does not want recorded.
  explicit Records(std::int64_t every_ns, bool silent = false)
      : every_ns_(every_ns), silent_(silent) {}
  bool silent() const { return silent_; }
  // The time between two records of a kind that usually comes every `usual_ns`.
  std::int64_t interval(std::int64_t usual_ns) const { return std::max(usual_ns, every_ns_); }

  // Adds {"time_ns":..., "agent":..., "kind":..., field:value...}. A figure that is not finite
  // becomes null. Any logical process may call it; the kernel puts all rows in order.
  void add(std::int64_t time_ns, std::string_view agent, std::string_view kind,
           std::span<const TraceField> fields, std::string_view link = {},
           std::span<const TextField> texts = {});
  void add(std::int64_t time_ns, std::string_view agent, std::string_view kind,
           std::initializer_list<TraceField> fields, std::string_view link = {}) {
    add(time_ns, agent, kind, std::span(fields.begin(), fields.size()), link);
  }
  // Writes a line that a process has added.
  static void write_out(std::string_view line);
  // Writes the line and flushes everything, because the other side waits for it. Not for a process.
  void send_now(std::string_view line);

 private:
  const std::int64_t every_ns_;
  const bool silent_;
};

}  // namespace tiercast::ns3_runtime
