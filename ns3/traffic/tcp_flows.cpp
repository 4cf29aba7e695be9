// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/tcp_flows.h"

// Individual headers, because the modules' own headers include some that are not C++20.
#include <ns3/boolean.h>
#include <ns3/config.h>
#include <ns3/double.h>
#include <ns3/enum.h>
#include <ns3/error-model.h>
#include <ns3/inet-socket-address.h>
#include <ns3/internet-stack-helper.h>
#include <ns3/ipv4-end-point.h>
#include <ns3/ipv4-header.h>
#include <ns3/ipv4-interface.h>
#include <ns3/ipv4-l3-protocol.h>
#include <ns3/ipv4-static-routing-helper.h>
#include <ns3/node.h>
#include <ns3/queue.h>
#include <ns3/random-variable-stream.h>
#include <ns3/rng-seed-manager.h>
#include <ns3/rtt-estimator.h>
#include <ns3/simple-channel.h>
#include <ns3/simple-net-device.h>
#include <ns3/simulator.h>
#include <ns3/socket.h>
#include <ns3/tcp-bbr.h>
#include <ns3/tcp-bic.h>
#include <ns3/tcp-cubic.h>
#include <ns3/tcp-dctcp.h>
#include <ns3/tcp-header.h>
#include <ns3/tcp-highspeed.h>
#include <ns3/tcp-htcp.h>
#include <ns3/tcp-hybla.h>
#include <ns3/tcp-illinois.h>
#include <ns3/tcp-l4-protocol.h>
#include <ns3/tcp-linux-reno.h>
#include <ns3/tcp-lp.h>
#include <ns3/tcp-option.h>
#include <ns3/tcp-prr-recovery.h>
#include <ns3/tcp-recovery-ops.h>
#include <ns3/tcp-scalable.h>
#include <ns3/tcp-socket-base.h>
#include <ns3/tcp-socket-state.h>
#include <ns3/tcp-tx-buffer.h>
#include <ns3/tcp-vegas.h>
#include <ns3/tcp-veno.h>
#include <ns3/tcp-westwood.h>
#include <ns3/tcp-yeah.h>
#include <ns3/uinteger.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ns3/traffic/ns3_events.h"
#include "ns3/traffic/on_off.h"
#include "protocols/base/units.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr std::uint32_t kTcpHeaders = 20 + 20 + 12;  // IP, TCP and its time stamps
constexpr std::uint32_t kBuffer = 4 << 20;           // bytes: no flow is bound by it
constexpr std::uint32_t kUnsent = 32 << 10;          // bytes waiting behind the window
constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();  // of a window
constexpr double kMaxSegmentLifeS = 1;

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

// `name` is Linux's, or newreno; `most`: largest window, bytes. The names are also in
// experiment/tcp_stack.py.
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

// Measures a round trip in ticks of a clock that has a phase of its own: as many as end during it.
// Time-outs are computed from that. The mean is right; a single value is up to a tick off.
class TickingRtt : public ns3::RttMeanDeviation {
 public:
  TickingRtt(ns3::Time tick, double phase, std::function<void(ns3::Time)> exact)
      : tick_(tick), phase_(tick * phase), exact_(std::move(exact)) {}

  void Measurement(ns3::Time rtt) override {
    exact_(rtt);
    const ns3::Time now = ns3::Simulator::Now() + phase_;
    const std::int64_t ticks = ticks_until(now) - ticks_until(now - rtt);
    RttMeanDeviation::Measurement(tick_ * std::max<std::int64_t>(ticks, 1));
  }
  ns3::Ptr<ns3::RttEstimator> Copy() const override { return ns3::CopyObject<TickingRtt>(this); }

 private:
  std::int64_t ticks_until(ns3::Time time) const {
    return time.GetNanoSeconds() / tick_.GetNanoSeconds();
  }

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
               std::uint16_t peer_port, ns3::SequenceNumber32 first, std::uint32_t header_bytes) {
    using State = ns3::TcpSocketState;
    const std::uint32_t size = segment->GetSize();
    if (header_bytes > size || !IsValidTcpSegment(first, header_bytes, size - header_bytes)) return;
    if (ip.GetEcn() == ns3::Ipv4Header::ECN_CE && m_ecnCESeq < first) {
      m_ecnCESeq = first;
      m_tcb->m_ecnState = State::ECN_CE_RCVD;
      m_congestionControl->CwndEvent(m_tcb, State::CA_EVENT_ECN_IS_CE);
    } else if (ip.GetEcn() == ns3::Ipv4Header::ECN_ECT0 ||
               ip.GetEcn() == ns3::Ipv4Header::ECN_ECT1) {
      m_congestionControl->CwndEvent(m_tcb, State::CA_EVENT_ECN_NO_CE);
    }
    DoForwardUp(segment, ns3::InetSocketAddress(ip.GetSource(), peer_port),
                ns3::InetSocketAddress(ip.GetDestination(), m_endPoint->GetLocalPort()));
  }

 protected:
  ns3::Ptr<TcpSocketBase> Fork() override { return ns3::CopyObject<FlowSocket>(this); }

  void ReceivedAck(ns3::Ptr<ns3::Packet> packet, const ns3::TcpHeader& header) override {
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
    if (m_tcb->m_congState == State::CA_CWR && !advances &&
        header.HasOption(ns3::TcpOption::SACK)) {
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

 private:
  const v1::TcpSender sender_;
};

// Until Simulator::Run(), which our kernel takes the place of, ns-3 keeps every Time in a set,
// under a lock, to convert it if the resolution is changed. Once it is set, ns-3 does not.
void stop_marking_times() {
  static const bool once = [] {
    ns3::Time::SetResolution(ns3::Time::GetResolution());
    return true;
  }();
  (void)once;
}

// A quantity that changes in steps, with its mean over time.
class Steps {
 public:
  void set(double value) {
    add_up();
    value_ = value;
  }
  double value() const { return value_; }
  // The mean since the last call.
  double mean() {
    add_up();
    const double result = seconds_ > 0 ? sum_ / seconds_ : value_;
    sum_ = seconds_ = 0;
    return result;
  }

 private:
  void add_up() {
    const ns3::Time now = ns3::Simulator::Now();
    const double passed = (now - since_).GetSeconds();
    sum_ += value_ * passed;
    seconds_ += passed;
    since_ = now;
  }

  double value_ = 0;
  double sum_ = 0;
  double seconds_ = 0;
  ns3::Time since_;
};

}  // namespace

// A host: the TCP of an ns-3 node, whose IP packets are read and written here. ns-3's own layers
// below TCP would take half of a packet's time, with two events in each direction.
class TcpFlows::Station : public HostEndpoint {
 public:
  Station(VirtualNetwork& network, const HostSpec& host)
      : network_(network), host_(host), node_(ns3::CreateObject<ns3::Node>()) {
    // TCP takes its own address from a route, and a route needs a device.
    const auto device = ns3::CreateObject<ns3::SimpleNetDevice>();
    node_->AddDevice(device);
    ns3::InternetStackHelper().Install(node_);
    const auto ipv4 = node_->GetObject<ns3::Ipv4L3Protocol>();
    const std::uint32_t interface = ipv4->AddInterface(device);
    ipv4->AddAddress(interface, {ns3::Ipv4Address(host.address), ns3::Ipv4Mask("/24")});
    ipv4->SetUp(interface);
    interface_ = ipv4->GetInterface(interface);
    ns3::Ipv4StaticRoutingHelper().GetStaticRouting(ipv4)->SetDefaultRoute(
        ns3::Ipv4Address(host.gateway), interface);
    node_->Initialize();
    tcp_ = node_->GetObject<ns3::TcpL4Protocol>();
    tcp_->SetDownTarget(ns3::MakeCallback(&Station::send, this));
    network.attach(host.name, *this);
  }

  const HostSpec& host() const { return host_; }
  ns3::Ptr<ns3::Node> node() const { return node_; }

  // Packets to `port` leave after a random time of up to `most`, together with those that come in
  // the meantime: the overhead_ of ns-2's TCP.
  void hold_back(std::uint16_t port, ns3::Time most) { held_[port].most = most; }

  // What comes for the connection goes there straight: TcpL4Protocol would read the header once
  // more to find it. The ends are those of the packets that it sends.
  void connected(const ns3::Ptr<FlowSocket>& connection, ns3::Ipv4Address peer,
                 std::uint16_t peer_port, std::uint16_t port) {
    connections_[connection_key(peer.Get(), peer_port, port)] = connection;
  }

  void receive(std::span<const std::byte> frame) override {
    wire::Ipv4Packet packet;
    if (wire::parse_ipv4_frame(frame, packet) != wire::FrameError::kOk ||
        packet.protocol != ns3::TcpL4Protocol::PROT_NUMBER || packet.destination != host_.address ||
        packet.payload.size() < kTcpBytes) {
      return;  // it is for an agent on the same host
    }
    if (wire::transport_checksum(packet.source, packet.destination, packet.protocol,
                                 packet.payload) != 0) {
      return;
    }
    ns3::Ipv4Header header;
    header.SetSource(ns3::Ipv4Address(packet.source));
    header.SetDestination(ns3::Ipv4Address(packet.destination));
    header.SetProtocol(packet.protocol);
    header.SetEcn(static_cast<ns3::Ipv4Header::EcnType>(packet.ecn));
    header.SetPayloadSize(static_cast<std::uint16_t>(packet.payload.size()));
    const auto segment =
        ns3::Create<ns3::Packet>(reinterpret_cast<const std::uint8_t*>(packet.payload.data()),
                                 static_cast<std::uint32_t>(packet.payload.size()));
    const std::uint16_t peer_port = wire::get16(packet.payload, 0);
    const auto found = connections_.find(
        connection_key(packet.source, peer_port, wire::get16(packet.payload, kToPort)));
    if (found != connections_.end()) {
      const ns3::Ptr<FlowSocket> connection = found->second;
      if (connection->is_established()) {
        const std::uint32_t words = wire::get8(packet.payload, kWords) >> 4;
        return connection->receive(segment, header, peer_port,
                                   ns3::SequenceNumber32(wire::get32(packet.payload, kSequence)),
                                   4 * words);
      }
      if (connection->is_over()) connections_.erase(found);
    }
    tcp_->Receive(segment, header, interface_);
  }

 private:
  void send(ns3::Ptr<ns3::Packet> packet, ns3::Ipv4Address, ns3::Ipv4Address destination,
            std::uint8_t protocol, ns3::Ptr<ns3::Ipv4Route>) {
    ns3::SocketIpTosTag tos;
    const bool has_tos = packet->PeekPacketTag(tos);
    wire::Ipv4Flow flow;
    flow.source_mac = host_.mac;
    flow.destination_mac = host_.gateway_mac;
    flow.source = host_.address;
    flow.destination = destination.Get();
    flow.protocol = protocol;
    flow.ecn = static_cast<wire::Ecn>(has_tos ? tos.GetTos() & 3 : 0);
    frame_.resize(kTcpAt + packet->GetSize());
    packet->CopyData(reinterpret_cast<std::uint8_t*>(frame_.data()) + kTcpAt, packet->GetSize());
    const std::span<std::byte> tcp = std::span(frame_).subspan(kTcpAt);
    wire::put16(tcp, kChecksum,
                wire::transport_checksum(flow.source, flow.destination, protocol, tcp));
    wire::write_ipv4_header(flow, next_ip_id_++, frame_);
    if (!hold()) network_.send(host_, frame_);
  }

  // Whether frame_ leaves later.
  bool hold() {
    if (held_.empty()) return false;
    const auto found = held_.find(wire::get16(frame_, kTcpAt + kToPort));
    if (found == held_.end()) return false;
    Held& held = found->second;
    if (held.frames.empty()) {
      ns3::Simulator::Schedule(random_->GetValue() * held.most, [this, &held] {
        const auto frames = std::exchange(held.frames, {});
        for (const auto& frame : frames) network_.send(host_, frame);
      });
    }
    held.frames.push_back(frame_);
    return true;
  }

  struct Held {
    ns3::Time most;
    std::vector<std::vector<std::byte>> frames;
  };
  static std::uint64_t connection_key(std::uint32_t peer, std::uint16_t peer_port,
                                      std::uint16_t port) {
    return std::uint64_t{peer} << 32 | std::uint32_t{peer_port} << 16 | port;
  }
  static constexpr std::size_t kTcpAt = wire::kEthernetBytes + wire::kIpv4Bytes;
  static constexpr std::size_t kTcpBytes = 20;  // its header without options
  // In the header; the upper half of kWords is its length.
  static constexpr std::size_t kToPort = 2, kSequence = 4, kWords = 12, kChecksum = 16;

  VirtualNetwork& network_;
  const HostSpec& host_;
  ns3::Ptr<ns3::Node> node_;
  ns3::Ptr<ns3::Ipv4Interface> interface_;
  ns3::Ptr<ns3::TcpL4Protocol> tcp_;
  std::uint16_t next_ip_id_ = 0;
  std::vector<std::byte> frame_;
  std::map<std::uint16_t, Held> held_;  // by destination port, which identifies a flow
  std::unordered_map<std::uint64_t, ns3::Ptr<FlowSocket>> connections_;  // by connection_key()
  ns3::Ptr<ns3::UniformRandomVariable> random_ =
      ns3::CreateObject<ns3::UniformRandomVariable>();  // 0 to 1
};

// A flow: one endless connection, or one connection after another.
class TcpFlows::Flow {
 public:
  // A flow that goes on until the run ends, at `end_ns`, is not stopped: its last record would be
  // of a closed connection.
  Flow(Kernel& kernel, const v1::TcpFlow& spec, Station& from, Station& to, Rng rng,
       std::int64_t end_ns)
      : spec_(spec),
        sender_(spec.sender()),
        payload_(spec.packet_size() - kTcpHeaders),
        from_(from),
        to_(to),
        most_(spec.window_packets() > 0 ? spec.window_packets() * payload_ : kNoLimit),
        port_(static_cast<std::uint16_t>(spec.port())),
        destination_(ns3::Ipv4Address(to.host().address), port_),
        rng_(rng) {
    listener_ = make_socket(to);
    // Its connections take it over.
    if (!spec.delayed_acks()) listener_->SetAttribute("DelAckCount", ns3::UintegerValue(1));
    if (spec.ack_delay_ns() > 0) {
      listener_->SetAttribute("DelAckTimeout",
                              ns3::TimeValue(ns3::NanoSeconds(spec.ack_delay_ns())));
    }
    if (spec.overhead_ns() > 0) from.hold_back(port_, ns3::NanoSeconds(spec.overhead_ns()));
    listener_->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port_));
    listener_->SetAcceptCallback(
        ns3::MakeNullCallback<bool, ns3::Ptr<ns3::Socket>, const ns3::Address&>(),
        ns3::MakeCallback(&Flow::accept, this));
    listener_->Listen();
    kernel.pause_at(spec.start_ns(), [this] { begin(); });
    if (spec.stop_ns() < end_ns) kernel.pause_at(spec.stop_ns(), [this] { stop(); });
  }

  ~Flow() { call_.Cancel(); }

  void report(Records& records) {
    const std::int64_t now = ns3::Simulator::Now().GetNanoSeconds();
    const double ip_bytes_per_byte = static_cast<double>(spec_.packet_size()) / payload_;
    records.add(now, spec_.name(), "tcp",
                {{"bytes", static_cast<double>(read_) * ip_bytes_per_byte}});
    records.add(now, spec_.name(), "tcp.sender",
                {{"cwnd", cwnd_.value()},
                 {"cwnd_mean", cwnd_.mean()},
                 {"ssthresh", ssthresh_.value()},
                 {"rtt_us", rtt_us_.value()},
                 {"rtt_mean_us", rtt_us_.mean()},
                 {"sent_packets", sent_packets_},
                 {"retransmitted", retransmitted_},
                 {"fast_retransmits", fast_retransmits_},
                 {"timeouts", timeouts_}});
  }

 private:
  using SocketPtr = ns3::Ptr<FlowSocket>;
  using CongState = ns3::TcpSocketState::TcpCongState_t;

  SocketPtr make_socket(const Station& at) const {
    const auto socket = ns3::CreateObject<FlowSocket>(sender_);
    const auto tcp = at.node()->GetObject<ns3::TcpL4Protocol>();
    socket->SetNode(at.node());
    socket->SetTcp(tcp);
    socket->SetRtt(ns3::CreateObject<ns3::RttMeanDeviation>());
    const auto control = congestion_control(spec_.congestion(), most_, sender_.whole_packets());
    if (spec_.l4s()) control->SetAttribute("UseEct0", ns3::BooleanValue(false));
    socket->SetCongestionControlAlgorithm(control);
    if (sender_.rate_reduction()) {
      socket->SetRecoveryAlgorithm(ns3::CreateObject<ns3::TcpPrrRecovery>());
    } else {
      socket->SetRecoveryAlgorithm(ns3::CreateObject<ns3::TcpClassicRecovery>());
    }
    tcp->AddSocket(socket);
    const ns3::TimeValue least(ns3::NanoSeconds(sender_.min_timeout_ns()));
    socket->SetAttribute("MinRto", least);
    socket->SetAttribute("ConnTimeout",
                         ns3::TimeValue(ns3::NanoSeconds(sender_.connect_timeout_ns())));
    socket->SetAttribute("DataRetries", ns3::UintegerValue(sender_.data_retries()));
    // RFC 6298's G, of which ns-3 has one for all: RTO = SRTT + max(G, 4 RTTVAR).
    if (sender_.min_above_rtt()) socket->SetAttribute("ClockGranularity", least);
    socket->SetAttribute("LimitedTransmit", ns3::BooleanValue(sender_.limited_transmit()));
    socket->SetAttribute("SegmentSize", ns3::UintegerValue(payload_));
    socket->SetAttribute("InitialCwnd", ns3::UintegerValue(std::min(
                                            sender_.initial_window_packets(), most_ / payload_)));
    socket->SetAttribute("Sack", ns3::BooleanValue(spec_.sack()));
    // A receiver takes part in ECN when it is asked to.
    socket->SetAttribute("UseEcn", ns3::EnumValue(spec_.ecn() ? ns3::TcpSocketState::On
                                                              : ns3::TcpSocketState::AcceptOnly));
    return socket;
  }

  // ---- the receiving end

  void accept(ns3::Ptr<ns3::Socket> connection, const ns3::Address& from) {
    const auto peer = ns3::InetSocketAddress::ConvertFrom(from);
    to_.connected(ns3::DynamicCast<FlowSocket>(connection), peer.GetIpv4(), peer.GetPort(), port_);
    connection->SetRecvCallback(ns3::MakeCallback(&Flow::read, this));
    const auto close = [](ns3::Ptr<ns3::Socket> socket) { socket->Close(); };
    connection->SetCloseCallbacks(close, ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>());
  }

  void read(ns3::Ptr<ns3::Socket> connection) {
    while (const auto packet = connection->Recv()) {
      if (packet->GetSize() == 0) break;
      read_ += packet->GetSize();
    }
  }

  // ---- the sending end

  void begin() {
    const bool transfer = spec_.has_on_off() && spec_.on_off().on().has_mean_packets();
    unsent_ = kWithoutEnd;
    if (transfer) {
      unsent_ = draw(spec_.on_off().on(), rng_);
    } else if (spec_.has_on_off()) {
      const std::uint64_t period = draw(spec_.on_off().on(), rng_);
      call_ = ns3::Simulator::Schedule(ns3::NanoSeconds(static_cast<std::int64_t>(period)),
                                       &Flow::end, this);
    }
    connect();
  }

  void connect() {
    connection_ = make_socket(from_);
    watch();
    connection_->SetSendCallback(ns3::MakeCallback(&Flow::fill, this));
    const auto failed = ns3::MakeCallback(&Flow::broken, this);
    connection_->SetConnectCallback(ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>(), failed);
    connection_->SetCloseCallbacks(ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>(), failed);
    // As in Mininet (flows/tcp.py): a later one may find an earlier one's end waiting.
    if (begun_) {
      connection_->Bind();
    } else {
      connection_->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port_));
    }
    begun_ = true;
    connection_->Connect(destination_);
    ns3::Address name;
    connection_->GetSockName(name);
    from_.connected(connection_, destination_.GetIpv4(), destination_.GetPort(),
                    ns3::InetSocketAddress::ConvertFrom(name).GetPort());
  }

  // Called at every acknowledgement. Little data waits behind the window, and it is soon refilled.
  void fill(ns3::Ptr<ns3::Socket>, std::uint32_t free) {
    std::uint32_t waiting = kBuffer - free;
    const std::uint32_t most = static_cast<std::uint32_t>(cwnd_.value() * payload_) + kUnsent;
    while (unsent_ > 0 && waiting + payload_ <= std::min(most, kBuffer)) {
      connection_->Send(ns3::Create<ns3::Packet>(payload_), 0);
      waiting += payload_;
      --unsent_;
      if (!connected()) return;  // what was sent may have ended it
    }
    // A transfer is over with its last acknowledgement, and closes as TCP does.
    if (unsent_ == 0 && waiting == 0) {
      forget()->Close();
      pause();
    }
  }

  // The connection has given up: no answer to its SYN or to its repeated packets.
  void broken(ns3::Ptr<ns3::Socket>) {
    forget();
    call_.Cancel();
    spec_.has_on_off() ? pause() : begin();
  }

  void end() {
    if (connected()) forget()->reset();
    pause();
  }

  void pause() {
    const std::uint64_t off = draw(spec_.on_off().off(), rng_);
    call_ = ns3::Simulator::Schedule(ns3::NanoSeconds(static_cast<std::int64_t>(off)), &Flow::begin,
                                     this);
  }

  // Nothing is sent after this.
  void stop() {
    call_.Cancel();
    if (connected()) forget()->reset();
  }

  bool connected() const { return connection_ != nullptr; }

  // After this the connection no longer calls back.
  SocketPtr forget() {
    const SocketPtr old = connection_;
    connection_ = nullptr;
    const auto nothing = ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>>();
    old->SetSendCallback(ns3::MakeNullCallback<void, ns3::Ptr<ns3::Socket>, std::uint32_t>());
    old->SetConnectCallback(nothing, nothing);
    old->SetCloseCallbacks(nothing, nothing);
    for (Steps* one : {&cwnd_, &ssthresh_, &rtt_us_}) one->set(0);
    return old;
  }

  void watch() {
    const auto* const mine = ns3::PeekPointer(connection_);
    const auto packets = [this, mine](Steps& value) {
      return ns3::Callback<void, std::uint32_t, std::uint32_t>(
          [this, mine, &value](std::uint32_t, std::uint32_t bytes) {
            if (ns3::PeekPointer(connection_) != mine) return;
            value.set(bytes / static_cast<double>(payload_));
          });
    };
    connection_->TraceConnectWithoutContext("CongestionWindow", packets(cwnd_));
    connection_->TraceConnectWithoutContext("SlowStartThreshold", packets(ssthresh_));
    const auto rtt_is = [this, mine](ns3::Time rtt) {
      if (ns3::PeekPointer(connection_) == mine) {
        rtt_us_.set(static_cast<double>(rtt.GetMicroSeconds()));
      }
    };
    if (const ns3::Time tick = ns3::NanoSeconds(sender_.clock_tick_ns()); tick.IsZero()) {
      connection_->TraceConnectWithoutContext(
          "RTT", ns3::Callback<void, ns3::Time, ns3::Time>(
                     [rtt_is](ns3::Time, ns3::Time rtt) { rtt_is(rtt); }));
    } else {
      connection_->SetRtt(ns3::CreateObject<TickingRtt>(tick, rng_.uniform(), rtt_is));
      connection_->SetAttribute("ClockGranularity", ns3::TimeValue(tick));
    }
    connection_->TraceConnectWithoutContext(
        "CongState",
        ns3::Callback<void, CongState, CongState>([this, mine](CongState, CongState now) {
          if (ns3::PeekPointer(connection_) != mine) return;
          if (now == ns3::TcpSocketState::CA_RECOVERY) ++fast_retransmits_;
          if (now == ns3::TcpSocketState::CA_LOSS) ++timeouts_;
        }));
    next_new_.reset();
    connection_->TraceConnectWithoutContext("Tx", ns3::MakeCallback(&Flow::count, this));
  }

  void count(ns3::Ptr<const ns3::Packet> packet, const ns3::TcpHeader& header,
             ns3::Ptr<const ns3::TcpSocketBase> socket) {
    if (packet->GetSize() == 0 || socket != connection_) return;
    const ns3::SequenceNumber32 first = header.GetSequenceNumber();
    ++sent_packets_;
    if (next_new_ && first < *next_new_) {
      ++retransmitted_;
    } else {
      next_new_ = first + packet->GetSize();
    }
  }

  static constexpr std::uint64_t kWithoutEnd = ~std::uint64_t{0};

  const v1::TcpFlow& spec_;
  const v1::TcpSender& sender_;
  const std::uint32_t payload_;  // bytes of a full packet
  Station& from_;
  Station& to_;
  const std::uint32_t most_;  // limit of the window, bytes
  const std::uint16_t port_;  // of both ends of the first connection
  const ns3::InetSocketAddress destination_;
  Rng rng_;
  SocketPtr listener_;
  bool begun_ = false;
  SocketPtr connection_;                // null while the flow is off
  std::uint64_t unsent_ = kWithoutEnd;  // packets of this connection
  std::uint64_t read_ = 0;              // bytes of payload over all connections
  Steps cwnd_;                          // packets
  Steps ssthresh_;                      // packets
  Steps rtt_us_;                        // samples
  double fast_retransmits_ = 0;
  double timeouts_ = 0;
  double sent_packets_ = 0;                        // packets with data, including retransmissions
  double retransmitted_ = 0;                       // packets
  std::optional<ns3::SequenceNumber32> next_new_;  // of this connection
  ns3::EventId call_;
};

TcpFlows::TcpFlows(Kernel& kernel, VirtualNetwork& network, Records& records,
                   const v1::Scenario& scenario)
    : network_(network), records_(records) {
  if (scenario.tcp().empty()) return;
  const HostSpec& any = network.host(scenario.tcp(0).source());
  ns3::Simulator::SetImplementation(
      ns3::CreateObject<Ns3Events>(network.process_of(any.switch_name)));
  stop_marking_times();
  ns3::RngSeedManager::SetSeed(1);
  ns3::RngSeedManager::SetRun(scenario.seed());
  ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(kBuffer));
  ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(kBuffer));
  // As Linux has it.
  ns3::Config::SetDefault("ns3::TcpSocket::DelAckTimeout", ns3::TimeValue(ns3::MilliSeconds(40)));
  // Closed connections wait for four minutes otherwise, and short transfers run out of ports.
  ns3::Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", ns3::DoubleValue(kMaxSegmentLifeS));
  std::uint16_t number = 0;
  for (const v1::TcpFlow& spec : scenario.tcp()) {
    flows_.push_back(std::make_unique<Flow>(
        kernel, spec, station(spec.source()), station(spec.destination()),
        flow_rng(scenario.seed(), FlowKind::kTcp, number), scenario.duration_ns()));
    ++number;
  }
}

TcpFlows::~TcpFlows() {
  if (flows_.empty()) return;
  flows_.clear();
  stations_.clear();
  ns3::Simulator::Destroy();
}

TcpFlows::Station& TcpFlows::station(const std::string& host) {
  for (const auto& one : stations_) {
    if (one->host().name == host) return *one;
  }
  stations_.push_back(std::make_unique<Station>(network_, network_.host(host)));
  return *stations_.back();
}

void TcpFlows::report() {
  for (const auto& flow : flows_) flow->report(records_);
}

}  // namespace tiercast::ns3_runtime
