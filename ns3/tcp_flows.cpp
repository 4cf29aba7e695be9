// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/tcp_flows.h"

// Headers one by one: the modules' bring some that are not C++20.
#include <ns3/application-container.h>
#include <ns3/arp-cache.h>
#include <ns3/boolean.h>
#include <ns3/bulk-send-application.h>
#include <ns3/bulk-send-helper.h>
#include <ns3/config.h>
#include <ns3/drop-tail-queue.h>
#include <ns3/enum.h>
#include <ns3/inet-socket-address.h>
#include <ns3/internet-stack-helper.h>
#include <ns3/ipv4-interface.h>
#include <ns3/ipv4-l3-protocol.h>
#include <ns3/ipv4-static-routing-helper.h>
#include <ns3/node.h>
#include <ns3/packet-sink-helper.h>
#include <ns3/packet-sink.h>
#include <ns3/simple-channel.h>
#include <ns3/simple-net-device.h>
#include <ns3/simulator.h>
#include <ns3/tcp-cubic.h>
#include <ns3/tcp-header.h>
#include <ns3/tcp-l4-protocol.h>
#include <ns3/tcp-linux-reno.h>
#include <ns3/tcp-socket-base.h>
#include <ns3/tcp-socket-state.h>
#include <ns3/uinteger.h>

#include <cstring>

#include "protocols/base/units.h"
#include "protocols/wire/bytes.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr std::uint16_t kFirstPort = 5600;
constexpr std::uint32_t kTcpHeaders = 20 + 20 + 12;  // IP, TCP and its time stamps
constexpr std::uint32_t kBuffer = 4 << 20;           // bytes: no flow is bound by it

ns3::Mac48Address to_ns3(const wire::MacAddress& mac) {
  ns3::Mac48Address result;
  std::uint8_t raw[6];
  std::memcpy(raw, mac.data(), sizeof raw);
  result.CopyFrom(raw);
  return result;
}

ns3::TypeId congestion_control(const std::string& name) {
  if (name == "reno") return ns3::TcpLinuxReno::GetTypeId();
  if (name == "newreno") return ns3::TcpNewReno::GetTypeId();
  if (name == "cubic") return ns3::TcpCubic::GetTypeId();
  throw ConfigError("congestion control '" + name + "'; valid: reno, newreno, cubic");
}

// Close() would first send all that waits in the buffer.
struct Resettable : ns3::TcpSocketBase {
  static void reset(ns3::TcpSocketBase& socket) { (socket.*(&Resettable::SendRST))(); }
};

}  // namespace

// The node, and a device at the switch's side of its link that turns ns-3's packets into frames.
class TcpFlows::Station : public HostEndpoint {
 public:
  Station(VirtualNetwork& network, const HostSpec& host)
      : network_(network), host_(host), node_(ns3::CreateObject<ns3::Node>()) {
    const auto channel = ns3::CreateObject<ns3::SimpleChannel>();
    device_ = add_device(node_, channel, to_ns3(host.mac));
    bridge_node_ = ns3::CreateObject<ns3::Node>();
    bridge_ = add_device(bridge_node_, channel, to_ns3(host.gateway_mac));
    bridge_->SetPromiscReceiveCallback(ns3::MakeCallback(&Station::from_ns3, this));

    ns3::InternetStackHelper().Install(node_);
    const auto ipv4 = node_->GetObject<ns3::Ipv4>();
    const std::uint32_t interface = ipv4->AddInterface(device_);
    ipv4->AddAddress(interface, {ns3::Ipv4Address(host.address), ns3::Ipv4Mask("/24")});
    ipv4->SetUp(interface);
    ns3::Ipv4StaticRoutingHelper().GetStaticRouting(ipv4)->SetDefaultRoute(
        ns3::Ipv4Address(host.gateway), interface);
    // Nobody answers ARP for the gateway, as in Mininet, where the lab writes the neighbour.
    const auto arp = node_->GetObject<ns3::Ipv4L3Protocol>()->GetInterface(interface)->GetArpCache();
    ns3::ArpCache::Entry* const entry = arp->Add(ns3::Ipv4Address(host.gateway));
    entry->SetMacAddress(to_ns3(host.gateway_mac));
    entry->MarkPermanent();
    network.attach(host.name, *this);
  }

  const HostSpec& host() const { return host_; }
  ns3::Ptr<ns3::Node> node() const { return node_; }

  void receive(std::span<const std::byte> frame) override {
    if (frame.size() < wire::kEthernetBytes + wire::kIpv4Bytes) return;
    if (wire::get16(frame, 12) != ns3::Ipv4L3Protocol::PROT_NUMBER) return;
    // Ethernet may have padded a short packet.
    const std::size_t length = wire::get16(frame, wire::kEthernetBytes + 2);
    if (length > frame.size() - wire::kEthernetBytes) return;
    if (std::to_integer<int>(frame[wire::kEthernetBytes + 9]) != ns3::TcpL4Protocol::PROT_NUMBER) {
      return;  // for an agent on the same host
    }
    ns3::Mac48Address source;
    source.CopyFrom(reinterpret_cast<const std::uint8_t*>(frame.data()) + 6);
    const auto packet = ns3::Create<ns3::Packet>(
        reinterpret_cast<const std::uint8_t*>(frame.data()) + wire::kEthernetBytes,
        static_cast<std::uint32_t>(length));
    bridge_->SendFrom(packet, source, to_ns3(host_.mac), ns3::Ipv4L3Protocol::PROT_NUMBER);
  }

 private:
  static ns3::Ptr<ns3::SimpleNetDevice> add_device(const ns3::Ptr<ns3::Node>& node,
                                                   const ns3::Ptr<ns3::SimpleChannel>& channel,
                                                   ns3::Mac48Address mac) {
    const auto device = ns3::CreateObject<ns3::SimpleNetDevice>();
    device->SetQueue(ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>());
    device->SetAddress(mac);
    device->SetChannel(channel);
    node->AddDevice(device);
    return device;
  }

  bool from_ns3(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet,
                std::uint16_t protocol, const ns3::Address& from, const ns3::Address& to,
                ns3::NetDevice::PacketType) {
    frame_.resize(wire::kEthernetBytes + packet->GetSize());
    auto* const bytes = reinterpret_cast<std::uint8_t*>(frame_.data());
    ns3::Mac48Address::ConvertFrom(to).CopyTo(bytes);
    ns3::Mac48Address::ConvertFrom(from).CopyTo(bytes + 6);
    wire::put16(frame_, 12, protocol);
    packet->CopyData(bytes + wire::kEthernetBytes, packet->GetSize());
    network_.send(host_, frame_);
    return true;
  }

  VirtualNetwork& network_;
  const HostSpec& host_;
  ns3::Ptr<ns3::Node> node_;
  ns3::Ptr<ns3::Node> bridge_node_;
  ns3::Ptr<ns3::SimpleNetDevice> device_;
  ns3::Ptr<ns3::SimpleNetDevice> bridge_;
  std::vector<std::byte> frame_;
};

struct TcpFlows::Flow {
  std::string name;
  double ip_bytes_per_byte = 1;  // of payload
  ns3::Ptr<ns3::PacketSink> sink;
  ns3::Ptr<ns3::BulkSendApplication> source;
  double cwnd = 0;      // packets
  double ssthresh = 0;  // packets
  double rtt_us = 0;
  double sent_packets = 0;   // with data, retransmissions included
  double retransmitted = 0;  // packets
  ns3::SequenceNumber32 next_new;

  // The sending socket is made when its application starts.
  void watch(double segment) {
    const auto socket = source->GetSocket();
    socket->TraceConnectWithoutContext(
        "CongestionWindow", ns3::Callback<void, std::uint32_t, std::uint32_t>(
                                [this, segment](std::uint32_t, std::uint32_t bytes) {
                                  cwnd = bytes / segment;
                                }));
    socket->TraceConnectWithoutContext(
        "SlowStartThreshold", ns3::Callback<void, std::uint32_t, std::uint32_t>(
                                  [this, segment](std::uint32_t, std::uint32_t bytes) {
                                    ssthresh = bytes / segment;
                                  }));
    socket->TraceConnectWithoutContext(
        "RTT", ns3::Callback<void, ns3::Time, ns3::Time>([this](ns3::Time, ns3::Time rtt) {
          rtt_us = static_cast<double>(rtt.GetMicroSeconds());
        }));
    socket->TraceConnectWithoutContext("Tx", ns3::MakeCallback(&Flow::count, this));
  }

  void count(ns3::Ptr<const ns3::Packet> packet, const ns3::TcpHeader& header,
             ns3::Ptr<const ns3::TcpSocketBase>) {
    if (packet->GetSize() == 0) return;
    const ns3::SequenceNumber32 first = header.GetSequenceNumber();
    if (sent_packets++ > 0 && first < next_new) {
      ++retransmitted;
    } else {
      next_new = first + packet->GetSize();
    }
  }
};

TcpFlows::TcpFlows(VirtualNetwork& network, Records& records, const Scenario& scenario)
    : network_(network), records_(records) {
  if (scenario.tcp.empty()) return;
  ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(kBuffer));
  ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(kBuffer));
  // As Linux has it. The least time-out stays RFC 6298's second: ns-3 adds nothing for delayed
  // acknowledgements, and with 200 ms a window of one packet never grew again.
  ns3::Config::SetDefault("ns3::TcpSocket::DelAckTimeout",
                          ns3::TimeValue(ns3::MilliSeconds(40)));
  // A receiver takes part in ECN when it is asked to.
  ns3::Config::SetDefault("ns3::TcpSocketBase::UseEcn",
                          ns3::EnumValue(ns3::TcpSocketState::AcceptOnly));
  // A packet's checksum is real in our switches and in Mininet.
  ns3::Config::SetGlobal("ChecksumEnabled", ns3::BooleanValue(true));
  std::uint16_t port = kFirstPort;
  for (const TcpSpec& spec : scenario.tcp) {
    Station& from = station(spec.from);
    Station& to = station(spec.to);
    const ns3::Address to_address =
        ns3::InetSocketAddress(ns3::Ipv4Address(to.host().address), port++);
    ns3::PacketSinkHelper sink("ns3::TcpSocketFactory", to_address);
    auto flow = std::make_unique<Flow>();
    flow->name = spec.name;
    flow->ip_bytes_per_byte =
        static_cast<double>(spec.packet_size) / (spec.packet_size - kTcpHeaders);
    ns3::ApplicationContainer sinks = sink.Install(to.node());
    sinks.Start(ns3::Seconds(0));
    flow->sink = ns3::DynamicCast<ns3::PacketSink>(sinks.Get(0));
    flows_.push_back(std::move(flow));

    // Sockets read them as they are made, which is when the application starts.
    const auto tcp = from.node()->GetObject<ns3::TcpL4Protocol>();
    const ns3::TypeId control = congestion_control(spec.congestion);
    ns3::Simulator::Schedule(ns3::NanoSeconds(spec.start_ns), [tcp, control, spec] {
      tcp->SetAttribute("SocketType", ns3::TypeIdValue(control));
      ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize",
                              ns3::UintegerValue(spec.packet_size - kTcpHeaders));
      ns3::Config::SetDefault("ns3::TcpSocketBase::Sack", ns3::BooleanValue(spec.sack));
      ns3::Config::SetDefault("ns3::TcpSocketBase::UseEcn",
                              ns3::EnumValue(spec.ecn ? ns3::TcpSocketState::On
                                                      : ns3::TcpSocketState::AcceptOnly));
    });
    ns3::BulkSendHelper source("ns3::TcpSocketFactory", to_address);
    source.SetAttribute("SendSize", ns3::UintegerValue(spec.packet_size - kTcpHeaders));
    ns3::ApplicationContainer sources = source.Install(from.node());
    sources.Start(ns3::NanoSeconds(spec.start_ns));
    sources.Stop(ns3::NanoSeconds(spec.stop_ns));
    Flow* const started = flows_.back().get();
    started->source = ns3::DynamicCast<ns3::BulkSendApplication>(sources.Get(0));
    ns3::Simulator::Schedule(ns3::NanoSeconds(spec.start_ns), [started, segment = spec.packet_size -
                                                               kTcpHeaders] {
      ns3::Simulator::ScheduleNow([started, segment] { started->watch(segment); });
    });
    // Before the application's own stop, at the same time.
    ns3::Simulator::Schedule(ns3::NanoSeconds(spec.stop_ns), [started] {
      const auto socket = ns3::DynamicCast<ns3::TcpSocketBase>(started->source->GetSocket());
      if (socket) Resettable::reset(*socket);
    });
  }
}

TcpFlows::~TcpFlows() = default;

TcpFlows::Station& TcpFlows::station(const std::string& host) {
  for (const auto& one : stations_) {
    if (one->host().name == host) return *one;
  }
  stations_.push_back(std::make_unique<Station>(network_, network_.host(host)));
  return *stations_.back();
}

void TcpFlows::report() {
  for (const auto& flow : flows_) {
    records_.add(ns3::Simulator::Now().GetNanoSeconds(), flow->name, "tcp",
                 {{"bytes", static_cast<double>(flow->sink->GetTotalRx()) * flow->ip_bytes_per_byte}});
    records_.add(ns3::Simulator::Now().GetNanoSeconds(), flow->name, "tcp.sender",
                 {{"cwnd", flow->cwnd},
                  {"ssthresh", flow->ssthresh},
                  {"rtt_us", flow->rtt_us},
                  {"sent_packets", flow->sent_packets},
                  {"retransmitted", flow->retransmitted}});
  }
}

}  // namespace tiercast::ns3_runtime
