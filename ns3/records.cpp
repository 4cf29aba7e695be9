// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/records.h"

#include <cstdio>

namespace tiercast::ns3_runtime {

void Records::add(std::int64_t time_ns, std::string_view agent, std::string_view kind,
                  std::span<const TraceField> fields, std::string_view link,
                  std::span<const TextField> texts) {
  if (silent_) return;
  row_.begin(time_ns);
  row_.text("agent", agent);
  row_.text("kind", kind);
  if (!link.empty()) row_.text("link", link);
  for (const TextField& text : texts) row_.text(text.name, text.value);
  for (const TraceField& field : fields) row_.number(field.name, field.value);
  const std::string_view line = row_.end();
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void Records::send_now(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace tiercast::ns3_runtime
