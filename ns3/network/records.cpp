// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/records.h"

#include <cstdio>

#include "ns3/kernel/logical_process.h"

namespace tiercast::ns3_runtime {

void Records::add(std::int64_t time_ns, std::string_view agent, std::string_view kind,
                  std::span<const TraceField> fields, std::string_view link,
                  std::span<const TextField> texts) {
  if (silent_) return;
  thread_local JsonRow row;  // for its memory
  row.begin(time_ns);
  row.text("agent", agent);
  row.text("kind", kind);
  if (!link.empty()) row.text("link", link);
  for (const TextField& text : texts) row.text(text.name, text.value);
  for (const TraceField& field : fields) row.number(field.name, field.value);
  const std::string_view line = row.end();
  if (LogicalProcess* const process = LogicalProcess::running()) return process->write(line);
  write_out(line);
}

void Records::write_out(std::string_view line) { std::fwrite(line.data(), 1, line.size(), stdout); }

void Records::send_now(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace tiercast::ns3_runtime
