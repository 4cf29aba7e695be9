// The congestion controls of TCP flows: ns-3's, with a largest window.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ns3/tcp-congestion-ops.h>

#include <cstdint>
#include <string>

namespace tiercast::ns3_runtime {

// `name` is Linux's, or newreno; `most`: largest window, bytes; `whole_packets`: a cut
// leaves whole packets. The names are also in experiment/tcp_stack.py. Throws ConfigError for
// another name.
ns3::Ptr<ns3::TcpCongestionOps> congestion_control(const std::string& name, std::uint32_t most,
                                                   bool whole_packets);

}  // namespace tiercast::ns3_runtime
