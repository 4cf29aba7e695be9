// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/tcp_flows.h"

// Individual headers, because the modules' own headers include some that are not C++20.
#include <ns3/boolean.h>
#include <ns3/config.h>
#include <ns3/double.h>
#include <ns3/enum.h>
#include <ns3/inet-socket-address.h>
#include <ns3/rng-seed-manager.h>
#include <ns3/simulator.h>
#include <ns3/socket.h>
#include <ns3/tcp-prr-recovery.h>
#include <ns3/tcp-recovery-ops.h>
#include <ns3/tcp-socket-state.h>
#include <ns3/uinteger.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "ns3/traffic/ns3_events.h"
#include "ns3/traffic/on_off.h"
#include "ns3/traffic/tcp_control.h"
#include "ns3/traffic/tcp_socket.h"
#include "ns3/traffic/tcp_station.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr std::uint32_t kTcpHeaders = 20 + 20 + 12;  // IP, TCP and its time stamps
constexpr std::uint32_t kBuffer = 4 << 20;           // bytes: no flow is bound by it
constexpr std::uint32_t kUnsent = 32 << 10;          // bytes waiting behind the window
constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();  // of a window
constexpr double kMaxSegmentLifeS = 1;

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

// A flow: one endless connection, or one connection after another.
class TcpFlows::Flow {
 public:
  // A flow that goes on until the run ends, at `end_ns`, is not stopped: its last record would be
  // of a closed connection.
  Flow(Kernel& kernel, const v1::TcpFlow& spec, TcpStation& from, TcpStation& to, Rng rng,
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

  SocketPtr make_socket(const TcpStation& at) const {
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
  TcpStation& from_;
  TcpStation& to_;
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

TcpStation& TcpFlows::station(const std::string& host) {
  for (const auto& one : stations_) {
    if (one->host().name == host) return *one;
  }
  stations_.push_back(std::make_unique<TcpStation>(network_, network_.host(host)));
  return *stations_.back();
}

void TcpFlows::report() {
  for (const auto& flow : flows_) flow->report(records_);
}

}  // namespace tiercast::ns3_runtime
