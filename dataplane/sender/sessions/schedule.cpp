#include "dataplane/sender/sessions/schedule.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "dataplane/dpdk/files.h"

namespace tiercast::sender {
namespace {

class Capture final : public Outlet {
 public:
  explicit Capture(const std::string& path) : file_("--dry-run", path) {}
  void frame(Time time, std::span<const std::byte> bytes) { file_.write(time.ns(), bytes); }
  void control(std::span<const std::byte> bytes) override { frame(now, bytes); }
  void record(Time, std::uint16_t, std::string_view, std::span<const TraceField>) override {}
  void close() { file_.close(); }

  Time now;

 private:
  dpdk::PcapFile file_;
};

}  // namespace

ScheduleSummary write_schedule(const std::vector<SessionRequest>& requests,
                               const SessionTable::Settings& settings, Duration ramp,
                               Duration duration, const std::string& prefix) {
  Capture capture(prefix + ".pcap");
  dpdk::OutputFile report("--dry-run", prefix + ".json");
  SessionTable::Settings own = settings;
  own.sessions = static_cast<std::uint32_t>(requests.size());
  own.prefilled = false;
  SessionTable table(own, capture);
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(requests.size());
    sessions.push_back(std::make_unique<Session>(requests[i], static_cast<std::uint32_t>(i),
                                                 Time::zero() + ramp * share));
    table.start(Time::zero(), *sessions.back());
  }

  ScheduleSummary summary;
  std::map<SessionTable::Layer, Time> last;
  std::vector<std::byte> buffer(settings.largest_frame);
  const Time end = Time::zero() + duration;
  for (Time now = Time::zero(); now < end;) {
    capture.now = now;
    while (table.run_timer(now)) {
    }
    while (const auto departure = table.pop(now)) {
      const std::size_t bytes = table.build(departure->layer, now, buffer.data());
      if (bytes == 0) continue;
      table.sent({&*departure, 1});
      capture.frame(now, std::span(buffer).first(bytes));
      const auto [before, first] = last.try_emplace(departure->layer, now);
      if (!first) summary.gaps.add((now - std::exchange(before->second, now)).ns());
    }
    now = std::max(table.next_deadline(), now + Duration::nanoseconds(1));
  }
  WorkerStatistics totals;
  table.read(totals);
  summary.packets = totals.sent;
  summary.bytes = totals.sent_bytes;

  report.write(fmt::format(R"({{"duration_s":{},"packets":{},"bytes":{},"gaps":[)",
                           duration.seconds(), summary.packets, summary.bytes));
  const char* comma = "\n";
  for (std::size_t bin = 0; bin < Histogram::kBins; ++bin) {
    if (summary.gaps.in_bin(bin) == 0) continue;
    report.write(fmt::format(R"({}{{"up_to_ns":{},"count":{}}})", comma,
                             Histogram::upper_bound(bin), summary.gaps.in_bin(bin)));
    comma = ",\n";
  }
  report.write("],\n\"layers\":[");
  comma = "\n";
  for (const auto& session : sessions) {
    std::vector<LayerStatistics> layers;
    table.read_layers(*session, layers);
    for (const LayerStatistics& layer : layers) {
      report.write(fmt::format(R"({}{{"session":{},"rank":{},"rate_Bps":{},"packets":{}}})", comma,
                               layer.session, layer.rank, layer.rate.bytes_per_second(),
                               layer.sent));
      comma = ",\n";
    }
  }
  report.write("]}\n");
  report.close();
  capture.close();
  return summary;
}

}  // namespace tiercast::sender
