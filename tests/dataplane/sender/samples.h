// What the sender's tests send with: an address, and a session of known rate.
#pragma once

#include "dataplane/dpdk/responder.h"
#include "dataplane/sender/sessions/session_table.h"

namespace tiercast::sender {

inline const OwnAddress kOwn{agent::parse_mac("02:00:00:00:00:02", ""), 0x0a000002};

// Each of its layers sends `packets_per_second`.
inline SessionRequest rlm(std::uint16_t session, double packets_per_second,
                          std::uint32_t size = 1000, unsigned layers = 8) {
  SessionRequest request;
  request.scheme = "rlm";
  request.config.session = session;
  request.config.layers = layers;
  request.config.packet_size = size;
  request.config.parameters = Parameters(find_scheme("rlm").parameters);
  const double rate = packets_per_second * size * 8;
  for (const char* name : {"rlm.base_rate", "rlm.step_rate"}) {
    request.config.parameters.set(name, rate);
  }
  request.config.parameters.set("rlm.growth", 1);
  request.config.parameters.set("rlm.max_rate", 100e9);
  request.top_rank = static_cast<int>(layers) - 1;
  return request;
}

}  // namespace tiercast::sender
