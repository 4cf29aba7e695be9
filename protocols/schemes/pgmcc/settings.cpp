#include "protocols/schemes/pgmcc/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::pgmcc {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"pgmcc.acker_bias", 0.75, 0.01, 1, "",
     "C: who expects less than C times the acker's throughput becomes the acker", "PROTOCOLS 9"},
    {"pgmcc.loss_constant", 1 - 500.0 / 65536, 0.5, 0.99999, "",
     "c of the loss filter p = c p + (1 - c) x", "PROTOCOLS 9"},
    {"pgmcc.ssthresh", 4, 1, 1000, "packets", "W grows by one per packet up to here",
     "PROTOCOLS 9"},
    {"pgmcc.max_window", 1024, 4, 32768, "packets", "largest W", "memory bound"},
    {"pgmcc.initial_timeout", 3, 0.001, 60, "s", "before the acker's first sample of RTT",
     "PROTOCOLS 9"},
    {"pgmcc.min_timeout", 1, 0.001, 60, "s", "smallest time-out", "RFC 6298"},
    {"pgmcc.acker_timeouts", 2, 1, 1000, "time-outs",
     "in a row, then a new acker is elected", "PROTOCOLS 9"},
    {"pgmcc.nak_backoff", 0.05, 0, 10, "s",
     "largest random delay of a NAK, which another's confirmation cancels; 0: none",
     "rule: PGM; value: project decision"},
    {"pgmcc.ecn", 0, 0, 1, "", "1: a marked packet counts as lost", "PROTOCOLS 9"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
  s.acker_bias = p.get("pgmcc.acker_bias");
  s.loss_constant = p.get("pgmcc.loss_constant");
  s.ssthresh = p.get("pgmcc.ssthresh");
  s.max_window = p.count("pgmcc.max_window");
  s.initial_timeout = p.time("pgmcc.initial_timeout");
  s.min_timeout = p.time("pgmcc.min_timeout");
  s.acker_timeouts = p.count("pgmcc.acker_timeouts");
  s.nak_backoff = p.time("pgmcc.nak_backoff");
  s.ecn = p.on("pgmcc.ecn");
  return s;
}

}  // namespace tiercast::pgmcc
