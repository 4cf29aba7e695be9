// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/tcp_control.h"

#include <ns3/tcp-bbr.h>
#include <ns3/tcp-bic.h>
#include <ns3/tcp-cubic.h>
#include <ns3/tcp-dctcp.h>
#include <ns3/tcp-highspeed.h>
#include <ns3/tcp-htcp.h>
#include <ns3/tcp-hybla.h>
#include <ns3/tcp-illinois.h>
#include <ns3/tcp-linux-reno.h>
#include <ns3/tcp-lp.h>
#include <ns3/tcp-scalable.h>
#include <ns3/tcp-socket-state.h>
#include <ns3/tcp-vegas.h>
#include <ns3/tcp-veno.h>
#include <ns3/tcp-westwood.h>
#include <ns3/tcp-yeah.h>

#include <map>

#include "base/config_error.h"

namespace tiercast::ns3_runtime {
namespace {

// Stops the window's growth at `most` bytes, as ns-2's window_ does, so that a cut halves what was
// really used. A small receive buffer would not do: ns-3's window keeps growing behind it.
template <typename Control>
class Limited : public Control {
 public:
  Limited(std::uint32_t most, bool whole_packets) : most_(most), whole_packets_(whole_packets) {}

  void IncreaseWindow(ns3::Ptr<ns3::TcpSocketState> state, std::uint32_t acknowledged) override {
    Control::IncreaseWindow(state, acknowledged);
    if (state->m_cWnd > most_) state->m_cWnd = most_;
  }
  // BBR sets its window here.
  void CongControl(ns3::Ptr<ns3::TcpSocketState> state,
                   const ns3::TcpRateOps::TcpRateConnection& connection,
                   const ns3::TcpRateOps::TcpRateSample& sample) override {
    Control::CongControl(state, connection, sample);
    if (state->m_cWnd > most_) state->m_cWnd = most_;
  }
  std::uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> state,
                            std::uint32_t in_flight) override {
    const std::uint32_t after = Control::GetSsThresh(state, in_flight);
    return whole_packets_ ? after - after % state->m_segmentSize : after;
  }
  ns3::Ptr<ns3::TcpCongestionOps> Fork() override { return ns3::CopyObject<Limited>(this); }

 private:
  const std::uint32_t most_;
  const bool whole_packets_;
};

// ns-3's DCTCP cuts its window by the share of marks for a loss, too: not at all where nothing is
// marked. A loss halves it as Reno's (RFC 8257, 3.5).
class Dctcp : public ns3::TcpDctcp {
 public:
  std::uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> state,
                            std::uint32_t in_flight) override {
    using State = ns3::TcpSocketState;
    const bool echo =
        state->m_ecnState == State::ECN_ECE_RCVD &&
        (state->m_congState == State::CA_OPEN || state->m_congState == State::CA_DISORDER);
    return echo ? TcpDctcp::GetSsThresh(state, in_flight)
                : TcpLinuxReno::GetSsThresh(state, in_flight);
  }
};

template <typename Control>
ns3::Ptr<ns3::TcpCongestionOps> limited(std::uint32_t most, bool whole_packets) {
  return ns3::CreateObject<Limited<Control>>(most, whole_packets);
}

}  // namespace

ns3::Ptr<ns3::TcpCongestionOps> congestion_control(const std::string& name, std::uint32_t most,
                                                   bool whole_packets) {
  using Make = ns3::Ptr<ns3::TcpCongestionOps> (*)(std::uint32_t, bool);
  static const std::map<std::string, Make> kinds{
      {"bbr", &limited<ns3::TcpBbr>},
      {"bic", &limited<ns3::TcpBic>},
      {"cubic", &limited<ns3::TcpCubic>},
      {"dctcp", &limited<Dctcp>},
      {"highspeed", &limited<ns3::TcpHighSpeed>},
      {"htcp", &limited<ns3::TcpHtcp>},
      {"hybla", &limited<ns3::TcpHybla>},
      {"illinois", &limited<ns3::TcpIllinois>},
      {"lp", &limited<ns3::TcpLp>},
      {"newreno", &limited<ns3::TcpNewReno>},
      {"reno", &limited<ns3::TcpLinuxReno>},
      {"scalable", &limited<ns3::TcpScalable>},
      {"vegas", &limited<ns3::TcpVegas>},
      {"veno", &limited<ns3::TcpVeno>},
      {"westwood", &limited<ns3::TcpWestwood>},
      {"yeah", &limited<ns3::TcpYeah>},
  };
  const auto found = kinds.find(name);
  if (found != kinds.end()) return found->second(most, whole_packets);
  std::string valid;
  for (const auto& [kind, make] : kinds) valid += (valid.empty() ? "" : ", ") + kind;
  throw ConfigError("congestion control '" + name + "'; valid: " + valid);
}

}  // namespace tiercast::ns3_runtime
