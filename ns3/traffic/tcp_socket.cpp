// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/tcp_socket.h"

#include <ns3/inet-socket-address.h>
#include <ns3/ipv4-end-point.h>
#include <ns3/packet.h>
#include <ns3/simulator.h>
#include <ns3/tcp-congestion-ops.h>
#include <ns3/tcp-header.h>
#include <ns3/tcp-option.h>
#include <ns3/tcp-socket-state.h>
#include <ns3/tcp-tx-buffer.h>

#include <algorithm>

namespace tiercast::ns3_runtime {

void TickingRtt::Measurement(ns3::Time rtt) {
  exact_(rtt);
  const ns3::Time now = ns3::Simulator::Now() + phase_;
  const std::int64_t ticks = ticks_until(now) - ticks_until(now - rtt);
  RttMeanDeviation::Measurement(tick_ * std::max<std::int64_t>(ticks, 1));
}

std::int64_t TickingRtt::ticks_until(ns3::Time time) const {
  return time.GetNanoSeconds() / tick_.GetNanoSeconds();
}

void FlowSocket::receive(const ns3::Ptr<ns3::Packet>& segment, const ns3::Ipv4Header& ip,
                         std::uint16_t peer_port, const ns3::SequenceNumber32& first,
                         std::uint32_t header_bytes) {
  using State = ns3::TcpSocketState;
  const std::uint32_t size = segment->GetSize();
  if (header_bytes > size || !IsValidTcpSegment(first, header_bytes, size - header_bytes)) return;
  if (ip.GetEcn() == ns3::Ipv4Header::ECN_CE && m_ecnCESeq < first) {
    m_ecnCESeq = first;
    m_tcb->m_ecnState = State::ECN_CE_RCVD;
    m_congestionControl->CwndEvent(m_tcb, State::CA_EVENT_ECN_IS_CE);
  } else if (ip.GetEcn() == ns3::Ipv4Header::ECN_ECT0 || ip.GetEcn() == ns3::Ipv4Header::ECN_ECT1) {
    m_congestionControl->CwndEvent(m_tcb, State::CA_EVENT_ECN_NO_CE);
  }
  DoForwardUp(segment, ns3::InetSocketAddress(ip.GetSource(), peer_port),
              ns3::InetSocketAddress(ip.GetDestination(), m_endPoint->GetLocalPort()));
}

void FlowSocket::ReceivedAck(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader& header) {
  using State = ns3::TcpSocketState;
  const bool advances = header.GetAckNumber() > m_txBuffer->HeadSequence();
  const bool recovered = m_tcb->m_congState != State::CA_RECOVERY;
  if (sender_.reno_recovery() && !m_sackEnabled && advances && !recovered &&
      header.GetAckNumber() < m_recover) {
    // Each lost packet of a window then takes three duplicates, and a cut, or a time-out.
    m_recover = header.GetAckNumber();  // so that it is a full acknowledgement
    m_txBuffer->ResetRenoSack();
  }
  if (sender_.restart_timer()) m_isFirstPartialAck = true;
  if (m_tcb->m_congState == State::CA_CWR && !advances && header.HasOption(ns3::TcpOption::SACK)) {
    m_congestionControl->CongestionStateSet(m_tcb, State::CA_RECOVERY);
    m_tcb->m_congState = State::CA_RECOVERY;  // until what was sent before the echo is there
    m_recoverActive = true;
  }
  const bool recovers =
      m_tcb->m_congState == State::CA_RECOVERY || m_tcb->m_congState == State::CA_LOSS;
  if (recovers && advances && m_tcb->m_ecnState != State::ECN_DISABLED &&
      (header.GetFlags() & ns3::TcpHeader::ECE) != 0) {
    // The window has had its cut; the next new packet says so (CWR).
    m_ecnEchoSeq = header.GetAckNumber();
    m_tcb->m_ecnState = State::ECN_ECE_RCVD;
  }
  TcpSocketBase::ReceivedAck(packet, header);
  if (sender_.restart_timer() && recovered && m_tcb->m_congState == State::CA_RECOVERY) {
    m_retxEvent.Cancel();
    m_retxEvent = ns3::Simulator::Schedule(m_rto, &FlowSocket::ReTxTimeout, this);
  }
}

}  // namespace tiercast::ns3_runtime
