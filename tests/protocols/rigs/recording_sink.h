// A Sink that records, and other things that tests of single cores need.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/core/registry.h"
#include "protocols/schemes/sim/messages.h"

namespace tiercast {

struct RecordingSink : Sink {
  void send(Destination, std::span<const std::byte> message) override {
    sent.emplace_back(message.begin(), message.end());
  }
  void join(Rank rank) override { joined.push_back(rank); }
  void leave(Rank rank) override { left.push_back(rank); }
  void set_rate(Rank layer, Rate rate) override { rates[layer] = rate; }
  void release(Rank layer, std::uint32_t packets) override { released[layer] += packets; }
  void deliver(std::uint64_t, std::span<const std::byte>) override {}
  void trace(std::string_view kind, std::span<const TraceField> fields) override {
    last_trace[std::string(kind)].clear();
    for (const TraceField& field : fields)
      last_trace[std::string(kind)][std::string(field.name)] = field.value;
  }

  wire::SimFeedback feedback(std::size_t i) const {
    wire::SimFeedback parsed;
    if (wire::parse(sent.at(i), parsed) != wire::Error::kOk)
      throw std::runtime_error("not feedback");
    return parsed;
  }

  std::vector<std::vector<std::byte>> sent;
  std::vector<Rank> joined;
  std::vector<Rank> left;
  std::map<Rank, Rate> rates;
  std::map<Rank, std::uint32_t> released;
  std::map<std::string, std::map<std::string, double>> last_trace;
};

// The configuration of a single core.
inline SessionConfig core_config(std::string_view scheme, unsigned layers,
                                 const std::vector<std::string>& set = {}) {
  SessionConfig config;
  config.session = 9;
  config.layers = layers;
  config.self_id = 77;
  config.parameters = Parameters(find_scheme(scheme).parameters);
  for (const std::string& assignment : set) config.parameters.set(assignment);
  return config;
}

inline SessionConfig sim_config(unsigned layers, const std::vector<std::string>& set = {}) {
  return core_config("sim", layers, set);
}

inline Time at_ms(double t) { return Time::zero() + Duration::seconds(t * 1e-3); }

}  // namespace tiercast
