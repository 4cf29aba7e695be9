#include "agent/telemetry.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace tiercast::agent {

void Telemetry::CloseFile::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

Telemetry::Telemetry(const std::string& trace, bool batches) : path_(trace), batches_(batches) {
  if (trace.empty()) return;
  file_.reset(trace == "-" ? stdout : std::fopen(trace.c_str(), "we"));
  if (!file_) {
    throw ConfigError(
        fmt::format("--trace: cannot write '{}': {} (a file, or - for standard output)", trace,
                    std::strerror(errno)));
  }
}

void Telemetry::record(Time time, std::string_view kind, std::span<const TraceField> fields) {
  if (batches_) {
    v1::Record& record = *batch_.add_records();
    record.set_time_ns(time.ns());
    record.set_kind(kind.data(), kind.size());
    for (const TraceField& field : fields) {
      v1::Field& out = *record.add_fields();
      out.set_name(field.name.data(), field.name.size());
      out.set_value(field.value);
    }
  }
  if (file_) {
    row_.begin(time.ns());
    row_.text("kind", kind);
    for (const TraceField& field : fields) row_.number(field.name, field.value);
    const std::string_view line = row_.end();
    // The buffer is lost with it, and flush() may well succeed again.
    if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) lost_ = errno;
  }
}

void Telemetry::flush() {
  if (!file_) return;
  if (std::fflush(file_.get()) != 0 || lost_ != 0) {
    throw std::system_error(lost_ != 0 ? lost_ : errno, std::generic_category(),
                            "--trace " + path_);
  }
}

v1::Records Telemetry::take_batch() { return std::exchange(batch_, v1::Records()); }

}  // namespace tiercast::agent
