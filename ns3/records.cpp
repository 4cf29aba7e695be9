// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/records.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace tiercast::ns3_runtime {

void Records::begin(std::int64_t time_ns, std::string_view agent, std::string_view kind) {
  line_.assign("{\"time_ns\":").append(std::to_string(time_ns));
  line_.append(",\"agent\":\"").append(agent).append("\",\"kind\":\"").append(kind).append("\"");
}

void Records::number(std::string_view name, double value) {
  line_.append(",\"").append(name).append("\":");
  if (!std::isfinite(value)) {
    line_.append("null");
    return;
  }
  char text[32];
  // Most figures are counts, for which the digits that follow are the same, and quicker.
  constexpr double kWhole = 1e15;  // below it, %.17g writes whole numbers without an exponent
  if (value == std::trunc(value) && std::abs(value) < kWhole && !std::signbit(value)) {
    line_.append(text, std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value)).ptr);
    return;
  }
  // The shortest of the exact forms is not needed; the same bytes for the same value are.
  std::snprintf(text, sizeof text, "%.17g", value);
  line_.append(text);
}

void Records::end() {
  line_.append("}\n");
  std::fwrite(line_.data(), 1, line_.size(), stdout);
}

void Records::add(std::int64_t time_ns, std::string_view agent, std::string_view kind,
                  std::span<const TraceField> fields, std::string_view link) {
  if (silent_) return;
  begin(time_ns, agent, kind);
  if (!link.empty()) line_.append(",\"link\":\"").append(link).append("\"");
  for (const TraceField& field : fields) number(field.name, field.value);
  end();
}

void Records::send_now(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace tiercast::ns3_runtime
