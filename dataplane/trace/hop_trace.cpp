#include "dataplane/trace/hop_trace.h"

#include <algorithm>
#include <cstdlib>

namespace tiercast::trace {
namespace {

using engine::TraceEvent;
using engine::TraceMap;

constexpr std::size_t kSampledKept = 1 << 16;  // packets on the way to queues

template <class T>
const T& field(const TraceEvent& event, std::string_view name) {
  static const T none{};
  for (const auto& [key, value] : event.fields) {
    if (key == name) return std::get<T>(value);
  }
  return none;
}

std::int64_t number(const TraceEvent& event, std::string_view name) {
  return field<std::int64_t>(event, name);
}

std::string place(const TraceEvent& event) {
  const std::string &by = field<std::string>(event, "by"),
                    &source = field<std::string>(event, "source");
  return source.empty() ? by : by.empty() ? source : by + " (" + source + ")";
}

}  // namespace

HopTrace::HopTrace(std::map<std::uint32_t, TracedPort> ports, std::size_t most_held)
    : ports_(std::move(ports)), most_held_(most_held) {
  for (const auto& [number, port] : ports_) {
    limits_[number] = sampling_limit(port.share);
    limit_ = std::max(limit_, limits_[number]);
  }
}

bool HopTrace::wants(std::uint32_t, std::span<const std::byte> frame) {
  const std::uint64_t hash = sampling_hash(frame);
  if (hash > limit_ || ports_.empty()) return false;
  if (rows_.size() + open_.size() >= most_held_) {
    ++skipped_;
    return false;
  }
  next_ = {};
  next_.packet = describe(frame);
  next_.hash = hash;
  return true;
}

HopTrace::Sampled* HopTrace::sampled(std::uint64_t packet) {
  if (packet < first_ || packet - first_ >= sampled_.size()) return nullptr;
  return &sampled_[packet - first_];
}

void HopTrace::event(const TraceEvent& event) {
  const Key key(event.packet, event.copy);
  if (event.kind == "receive") {
    if (sampled_.empty()) first_ = event.packet;
    sampled_.push_back(std::move(next_));
    if (sampled_.size() > kSampledKept) {
      sampled_.pop_front();
      ++first_;
    }
    return;
  }
  if (event.kind == "program") return lose_all();
  if (event.kind == "decision") return decided(event, key);
  if (event.kind == "enqueue") {
    const auto port = static_cast<std::uint32_t>(number(event, "port"));
    const auto limit = limits_.find(port);
    const Sampled* const one = sampled(event.packet);
    if (limit == limits_.end() || one == nullptr || one->hash > limit->second) return;
    Hop hop;
    hop.port = port;
    hop.packet = one->packet;
    hop.arrival_ns = event.time_ns;
    hop.found_packets = static_cast<std::uint32_t>(number(event, "waiting_packets"));
    hop.found_bytes = static_cast<std::uint64_t>(number(event, "waiting_bytes"));
    hop.fate = one->fate.empty() ? "passed" : one->fate;
    hop.by = one->by;
    hop.lines = one->lines;
    hop.registers.resize(ports_.at(port).registers.size());
    open_[key] = std::move(hop);
    return;
  }
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  Hop& hop = found->second;
  if (event.kind == "dequeue") {
    hop.left_packets = static_cast<std::uint32_t>(number(event, "deq_qdepth"));
    hop.wait_ns = number(event, "waited_ns");
  } else if (event.kind == "mark") {
    hop.fate = "marked";
    hop.by = field<std::string>(event, "by");
    hop.lines = {};
  } else if (event.kind == "red") {
    hop.red_average = std::atof(field<std::string>(event, "average").c_str());
  } else if (event.kind == "drop") {
    dropped(event, hop);
    finish(key);
  } else if (event.kind == "transmit" || event.kind == "packet_in") {
    hop.transit_ns = event.time_ns - hop.arrival_ns;
    finish(key);
  }
}

void HopTrace::decided(const TraceEvent& event, const Key& key) {
  const std::string& outcome = field<std::string>(event, "outcome");
  const auto& lines = field<std::vector<std::string>>(event, "lines");
  const auto found = open_.find(key);
  if (found == open_.end()) {
    if (Sampled* const one = sampled(event.packet); one != nullptr && outcome == "marked") {
      one->fate = outcome;
      one->by = place(event);
      one->lines = lines;
    }
    return;
  }
  Hop& hop = found->second;
  const TracedPort& port = ports_.at(hop.port);
  for (const auto& [name, value] : field<TraceMap>(event, "registers")) {
    const auto wanted = std::find(port.registers.begin(), port.registers.end(), name);
    if (wanted == port.registers.end()) continue;
    hop.registers[static_cast<std::size_t>(wanted - port.registers.begin())] =
        std::strtod(value.c_str(), nullptr);
  }
  // What ingress has marked stays marked, unless egress does more.
  if (outcome == "passed" && hop.fate != "passed") return;
  hop.fate = outcome;
  hop.by = place(event);
  hop.lines = lines;
}

void HopTrace::dropped(const TraceEvent& event, Hop& hop) {
  const std::string& where = field<std::string>(event, "where");
  const std::string& reason = field<std::string>(event, "reason");
  if (where == "egress") return;  // its decision has said so
  const bool early = reason.starts_with("RED on arrival");
  hop.fate = where == "link" ? "lost" : early ? "dropped" : "full";
  hop.by = early ? "RED on arrival" : where;
  hop.lines = {reason};
}

// Nothing more is heard of packets that were inside when a switch got another program.
void HopTrace::lose_all() {
  for (auto& [key, hop] : open_) {
    hop.fate = "lost";
    hop.by = "switch";
    hop.lines = {"another program was set"};
    rows_.push_back(std::move(hop));
  }
  open_.clear();
  sampled_.clear();
}

void HopTrace::finish(const Key& key) {
  const auto found = open_.find(key);
  rows_.push_back(std::move(found->second));
  open_.erase(found);
}

std::vector<Hop> HopTrace::take() { return std::exchange(rows_, {}); }

}  // namespace tiercast::trace
