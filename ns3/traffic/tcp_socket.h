// An end of a connection: ns-3's TCP, with its ECN mended, and round trips on a coarse clock.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ns3/ipv4-header.h>
#include <ns3/nstime.h>
#include <ns3/rtt-estimator.h>
#include <ns3/sequence-number.h>
#include <ns3/tcp-socket-base.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

// Measures a round trip in ticks of a clock that has a phase of its own: as many as end during it.
// Time-outs are computed from that. The mean is right; a single value is up to a tick off.
class TickingRtt : public ns3::RttMeanDeviation {
 public:
  // `phase`: 0 to 1 ticks. `exact` is told each round trip as it was.
  TickingRtt(ns3::Time tick, double phase, std::function<void(ns3::Time)> exact)
      : tick_(tick), phase_(tick * phase), exact_(std::move(exact)) {}

  void Measurement(ns3::Time rtt) override;
  ns3::Ptr<ns3::RttEstimator> Copy() const override { return ns3::CopyObject<TickingRtt>(this); }

 private:
  std::int64_t ticks_until(ns3::Time time) const;

  const ns3::Time tick_;
  const ns3::Time phase_;
  std::function<void(ns3::Time)> exact_;
};

// ns-3's TCP, with its ECN mended. ns-3 takes an echo for new congestion while it recovers from a
// time-out, and then repairs what was lost with a window of one packet. And while it reduces its
// window for an echo, it retransmits nothing before a time-out. Here, as in RFC 3168 (6.1.2) and in
// Linux, the window is cut once for all marks and losses of one round trip.
class FlowSocket : public ns3::TcpSocketBase {
 public:
  explicit FlowSocket(const v1::TcpSender& sender) : sender_(sender) {}

  // Close() would first send all that waits in the buffer.
  void reset() { SendRST(); }

  // SendRST() leaves the state as it was.
  bool is_established() const { return m_state == ESTABLISHED && m_endPoint != nullptr; }
  bool is_over() const {
    return m_state == CLOSED || m_state > ESTABLISHED || m_endPoint == nullptr;
  }

  // As ForwardUp(), which would read the header, and make an object of each option, for `first`
  // and `header_bytes` alone.
  void receive(const ns3::Ptr<ns3::Packet>& segment, const ns3::Ipv4Header& ip,
               std::uint16_t peer_port, const ns3::SequenceNumber32& first,
               std::uint32_t header_bytes);

 protected:
  ns3::Ptr<TcpSocketBase> Fork() override { return ns3::CopyObject<FlowSocket>(this); }
  void ReceivedAck(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader& header) override;

 private:
  const v1::TcpSender sender_;
};

}  // namespace tiercast::ns3_runtime
