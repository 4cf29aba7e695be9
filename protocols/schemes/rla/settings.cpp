#include "protocols/schemes/rla/settings.h"

#include <string>

#include "protocols/core/session_config.h"
#include "protocols/wire/rla.h"

namespace tiercast::rla {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"rla.eta", 20, 1, 1e6, "",
     "troubled: a congestion interval below eta times the smallest one", "RLA 3.3, rule 6"},
    {"rla.rtt_exponent", 0, 0, 8, "",
     "k of f(x) = x^k in the generalised version (the paper's is 2); 0: the plain one",
     "RLA 5.3"},
    {"rla.forced_cut", 2, 0, 1e9, "awnd srtt", "since the last cut, then a signal forces one",
     "RLA 3.3, rule 3 and footnote 7"},
    {"rla.awnd_weight", 0.01, 1e-6, 1, "", "EWMA weight of awnd, per packet", "PROTOCOLS 5.3"},
    {"rla.interval_weight", 0.125, 0.001, 1, "",
     "EWMA weight of a receiver's congestion interval, per signal", "PROTOCOLS 5.4"},
    {"rla.initial_window", 1, 1, 1000, "packets", "cwnd at the start", "as in TCP (RLA 3.3)"},
    {"rla.max_window", 1024, 4, 32768, "packets",
     "largest cwnd, and most packets from min_last_ack on that are under way", "memory bound"},
    {"rla.max_burst", 4, 1, 1000, "packets",
     "released per acknowledgement, when the window opens suddenly",
     "rule: RLA 3.3; value: PROTOCOLS 5.3"},
    {"rla.rexmit_thresh", 0, 0, 1e6, "receivers",
     "a packet that more receivers miss is repeated by multicast, else by unicast", "RLA 3.3, 5"},
    {"rla.overhead", 0, 0, 1, "s",
     "largest random time before what the window lets out leaves: a packet's service time at the "
     "bottleneck, against phase effects at drop-tail queues",
     "RLA 3.1"},
    {"rla.min_timeout", 1, 0.001, 60, "s", "smallest retransmission time-out", "RFC 6298"},
    {"rla.initial_timeout", 1, 0.001, 60, "s", "before the first sample of RTT", "RFC 6298"},
    {"rla.drop_timeouts", 5, 0, 1000, "time-outs",
     "without progress, or silent for as long, then a receiver is dropped if others go on; 0: never",
     "PROTOCOLS 5.5"},
    {"rla.drop_slow_ratio", 0, 0, 1e6, "",
     "the receiver with the smallest congestion interval is dropped when the next smallest is so "
     "many times larger; 0: never",
     "option: RLA 4.3; rule: project decision"},
    {"rla.start_delay", 1, 0, 600, "s", "from the first receiver's word to the first data",
     "project decision"},
    {"rla.max_receivers", 1024, 1, 1e6, "receivers", "known to the sender at a time",
     "memory bound"},
    {"rla.buffer", 1024, 4, 32768, "packets", "a receiver's room for packets out of order",
     "RLA 3.3, rule 5; value: memory bound"},
    {"rla.rexmit_now_after", 0, 0, 600, "s",
     "a receiver that waits so long for one packet asks for it at once; 0: never",
     "RLA 3.3, footnote 8"},
    {"rla.hello_interval", 0.25, 0.01, 60, "s",
     "between a receiver's first words until data comes; doubles up to 16 times",
     "project decision"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  // Packet numbers are compared as serial numbers.
  const std::size_t payload = config.packet_size - kIpUdpHeaderBytes - wire::RlaData::kBytes;
  if (config.object.size() / payload > 0x7fffffff) {
    throw ConfigError("the object has " + std::to_string(config.object.size() / payload) +
                      " packets; valid: at most 2147483647");
  }
  const Parameters& p = config.parameters;
  Settings s{};
  s.eta = p.get("rla.eta");
  s.rtt_exponent = p.get("rla.rtt_exponent");
  s.forced_cut = p.get("rla.forced_cut");
  s.awnd_weight = p.get("rla.awnd_weight");
  s.interval_weight = p.get("rla.interval_weight");
  s.initial_window = p.get("rla.initial_window");
  s.max_window = p.count("rla.max_window");
  s.max_burst = p.count("rla.max_burst");
  s.rexmit_threshold = p.count("rla.rexmit_thresh");
  s.overhead = p.time("rla.overhead");
  s.min_timeout = p.time("rla.min_timeout");
  s.initial_timeout = p.time("rla.initial_timeout");
  s.drop_timeouts = p.count("rla.drop_timeouts");
  s.drop_slow_ratio = p.get("rla.drop_slow_ratio");
  s.start_delay = p.time("rla.start_delay");
  s.max_receivers = p.count("rla.max_receivers");
  s.buffer = p.count("rla.buffer");
  s.rexmit_now_after = p.time("rla.rexmit_now_after");
  s.hello_interval = p.time("rla.hello_interval");
  p.require_rising({"rla.initial_window", "rla.max_window"});
  return s;
}

}  // namespace tiercast::rla
