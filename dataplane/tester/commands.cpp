#include "dataplane/tester/commands.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/address.h"
#include "dataplane/streams/test_frame.h"

namespace tiercast::tester {
namespace {

using Json = nlohmann::json;
using receiver::Subscription;

constexpr std::size_t kFcsBytes = 4;
constexpr std::uint64_t kMostDestinations = 1'000'000;

// {"first": "239.192.0.0", "count": 8, "step": 1, "source": "10.0.0.2"}: the groups.
std::vector<Subscription> groups_of(const Json& json) {
  const std::uint32_t first = agent::parse_ipv4(json.at("first").get<std::string>(), "first");
  const auto count = json.value("count", std::uint64_t{1});
  const auto step = json.value("step", std::uint32_t{1});
  const std::uint32_t source =
      json.contains("source") ? agent::parse_ipv4(json["source"].get<std::string>(), "source") : 0;
  if (count > kMostDestinations) throw ConfigError(fmt::format("count: {} is too many", count));
  std::vector<Subscription> groups;
  for (std::uint64_t i = 0; i < count; ++i) {
    groups.push_back({first + static_cast<std::uint32_t>(i) * step, source});
    if (!agent::is_multicast(groups.back().group)) {
      throw ConfigError(fmt::format("{} is not a group", agent::format_ipv4(groups.back().group)));
    }
  }
  return groups;
}

unsigned port_of(const Tester& tester, const Json& json, const char* name) {
  const auto port = json.at(name).get<std::uint64_t>();
  if (port >= tester.ports()) {
    throw ConfigError(
        fmt::format("{}: there is no port {}; valid: 0 to {}", name, port, tester.ports() - 1));
  }
  return static_cast<unsigned>(port);
}

// "to": groups as above, or {"host": "10.0.1.2", "mac": "02:..."}; each `weight` times in turn.
std::vector<Destination> destinations_of(const Json& list) {
  std::vector<Destination> all;
  for (const Json& one : list) {
    if (one.contains("host")) {
      const Destination host{agent::parse_ipv4(one["host"].get<std::string>(), "host"),
                             agent::parse_mac(one.at("mac").get<std::string>(), "mac")};
      all.insert(all.end(), one.value("weight", std::size_t{1}), host);
      continue;
    }
    for (const Subscription& group : groups_of(one)) {
      all.push_back({group.group, agent::multicast_mac(group.group)});
    }
  }
  if (all.empty()) throw ConfigError("to: no destination");
  return all;
}

Json latency_of(const Histogram& latency, std::int64_t least, double mean) {
  return {{"count", latency.count()},
          {"min_ns", least},
          {"mean_ns", mean},
          {"p50_ns", latency.quantile(0.5)},
          {"p99_ns", latency.quantile(0.99)},
          {"p999_ns", latency.quantile(0.999)},
          {"max_ns", latency.max()}};
}

Json stream_json(const streams::Stream& stream) {
  return {{"destination", agent::format_ipv4(stream.group)},
          {"received", stream.sequence.in_order() + stream.sequence.reordered()},
          {"duplicates", stream.sequence.duplicates()},
          {"reordered", stream.sequence.reordered()},
          {"first_ns", stream.first_arrival_ns.load()},
          {"last_ns", stream.last_arrival_ns.load()},
          {"last_gap_ns", stream.last_gap_ns.load()},
          {"longest_cut_ns", stream.longest_cut_ns.load()},
          {"latency_min_ns", stream.latency_min_ns.load()},
          {"latency_max_ns", stream.latency_max_ns.load()},
          {"latency_sum_ns", stream.latency_sum_ns.load()}};
}

// `before`: the port's latencies before the trial.
Json port_json(const receiver::PortAnalyser& port, const Histogram& before, bool each) {
  std::uint64_t received = 0, duplicates = 0, reordered = 0, stamped = 0, silent = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), sum = 0, first = 0, last = 0;
  std::int64_t most = 0;
  Json list = Json::array();
  const streams::StreamTable& table = port.streams();
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    const streams::Stream& stream = table[i];
    received += stream.sequence.in_order() + stream.sequence.reordered() + stream.sequence.stale();
    duplicates += stream.sequence.duplicates();
    reordered += stream.sequence.reordered();
    stamped += stream.stamped.get();
    sum += stream.latency_sum_ns.load();
    least = std::min(least, stream.latency_min_ns.load());
    most = std::max(most, stream.latency_max_ns.load());
    if (first == 0 || stream.first_arrival_ns.load() < first) first = stream.first_arrival_ns;
    last = std::max(last, stream.last_arrival_ns.load());
    silent += stream.received() == 0;
    if (each) list.push_back(stream_json(stream));
  }
  Histogram latency = port.latency().since(before);
  Json json{{"received", received},          {"duplicates", duplicates}, {"reordered", reordered},
            {"streams", table.size()},       {"first_ns", first},        {"last_ns", last},
            {"missed", port.port().missed()}};
  if (stamped > 0) {
    json["latency"] =
        latency_of(latency, least, static_cast<double>(sum) / static_cast<double>(stamped));
    json["latency"]["max_ns"] = most;
  }
  if (each) json["each"] = std::move(list);
  return json;
}

std::uint16_t next_trial() {
  static std::uint16_t trial = 0;
  trial = static_cast<std::uint16_t>(trial % 0x7fff + 1);  // the upper half: burdens
  return trial;
}

// Frames/s.
double offered(const Sent& sent) {
  const double seconds = static_cast<double>(sent.last_ns - sent.first_ns) * 1e-9;
  return seconds > 0 ? static_cast<double>(sent.frames - 1) / seconds : 0;
}

// Frames/s; 0: as fast as the device takes them.
double rate_of(const Json& json) {
  const auto rate = json.get<double>();
  if (rate < 0) throw ConfigError(fmt::format("rate: {} frames/s; valid: 0 or above", rate));
  return rate;
}

std::uint64_t frames_of(const Json& json) {
  if (!json.is_number_unsigned()) {
    throw ConfigError(fmt::format("frames: {}; valid: whole numbers from 0", json.dump()));
  }
  return json.get<std::uint64_t>();
}

Json trial(Tester& tester, const Json& json) {
  const unsigned from = port_of(tester, json, "from");
  Traffic traffic;
  traffic.trial = next_trial();
  const auto frame = json.at("frame").get<std::size_t>();  // with FCS, as RFC 2544 counts
  if (frame < streams::TestFrame::kSmallest + kFcsBytes || frame > tester.largest_frame()) {
    throw ConfigError(fmt::format("frame: {} bytes; valid: {} to {}", frame,
                                  streams::TestFrame::kSmallest + kFcsBytes,
                                  tester.largest_frame()));
  }
  traffic.frame_bytes = frame - kFcsBytes;
  traffic.destinations = destinations_of(json.at("to"));
  traffic.rate = rate_of(json.value("rate", Json(0.0)));
  traffic.frames = frames_of(json.at("frames"));
  if (json.contains("then")) {
    traffic.then_rate = rate_of(json["then"].at("rate"));
    traffic.then_frames = frames_of(json["then"].at("frames"));
  }
  std::vector<Change> changes;
  for (const Json& one : json.value("changes", Json::array())) {
    changes.push_back({Duration::seconds(one.at("at_s").get<double>()),
                       port_of(tester, one, "port"), one.at("join").get<bool>(),
                       groups_of(one.at("groups"))});
  }
  if (json.contains("burden") && json.contains("back")) {
    throw ConfigError("burden, back: one of them at a time");
  }
  std::optional<Beside> beside;
  for (const char* const kind : {"burden", "back"}) {
    if (!json.contains(kind)) continue;
    const Json& one = json[kind];
    beside.emplace();
    beside->from = port_of(tester, one, "from");
    if (beside->from == from) {
      throw ConfigError(fmt::format("{}: from: the port of the trial itself", kind));
    }
    beside->counts = std::string_view(kind) == "back";
    beside->traffic.frame_bytes = traffic.frame_bytes;
    beside->traffic.destinations = destinations_of(one.at("to"));
    beside->traffic.rate = beside->counts ? traffic.rate : rate_of(one.at("rate"));
    beside->traffic.frames = traffic.frames;
  }
  std::vector<Histogram> before;
  for (std::size_t i = 0; i < tester.ports(); ++i) before.push_back(tester.port(i).latency());
  ChangeTimes changed;
  const auto [sent, back] =
      tester.run(from, traffic, changes, Duration::seconds(json.value("wait_s", 2.0)), changed,
                 std::move(beside));
  Json out{{"sent", sent.frames},
           {"refused", sent.refused},
           {"first_ns", sent.first_ns},
           {"last_ns", sent.last_ns},
           {"then_ns", sent.then_ns},
           {"rate", offered(sent)},
           {"late_p99_ns", sent.late.quantile(0.99)},
           {"late_max_ns", sent.late.max()},
           {"changed_ns", changed},
           {"ports", Json::array()}};
  if (json.contains("back")) {
    out["back"] = {{"sent", back.frames}, {"last_ns", back.last_ns}, {"rate", offered(back)}};
  }
  for (std::size_t i = 0; i < tester.ports(); ++i) {
    out["ports"].push_back(port_json(tester.port(i), before[i], json.value("each", false)));
  }
  return out;
}

Json ports(const Tester& tester) {
  Json list = Json::array();
  for (std::size_t i = 0; i < tester.ports(); ++i) {
    const dpdk::Port& port = tester.port(i).port();
    list.push_back({{"device", port.device()},
                    {"driver", port.driver()},
                    {"interface", port.interface()},
                    {"mac", agent::format_mac(port.mac())},
                    {"address", agent::format_ipv4(tester.address(i))},
                    {"stamps", tester.port(i).stamped_by_device() ? "device" : "software"},
                    {"link_up", port.link_up()}});
  }
  return {{"ports", list}};
}

Json carry_out(Tester& tester, const Json& json) {
  const auto what = json.at("do").get<std::string>();
  if (what == "ports") return ports(tester);
  if (what == "trial") return trial(tester, json);
  if (what == "join" || what == "leave") {
    return {{"at_ns", tester.change(port_of(tester, json, "port"), what == "join",
                                    groups_of(json.at("groups")))}};
  }
  throw ConfigError(fmt::format("do: '{}'; valid: ports, join, leave, trial", what));
}

}  // namespace

std::string answer(Tester& tester, const std::string& command) {
  try {
    return carry_out(tester, Json::parse(command)).dump();
  } catch (const std::exception& error) {
    return Json{{"error", error.what()}}.dump();
  }
}

}  // namespace tiercast::tester
