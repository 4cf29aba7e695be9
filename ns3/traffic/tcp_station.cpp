// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/tcp_station.h"

#include <ns3/internet-stack-helper.h>
#include <ns3/ipv4-header.h>
#include <ns3/ipv4-l3-protocol.h>
#include <ns3/ipv4-static-routing-helper.h>
#include <ns3/simple-channel.h>
#include <ns3/simple-net-device.h>
#include <ns3/simulator.h>
#include <ns3/socket.h>

#include <utility>

#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::ns3_runtime {
namespace {

constexpr std::size_t kTcpAt = wire::kEthernetBytes + wire::kIpv4Bytes;
constexpr std::size_t kTcpBytes = 20;  // its header without options
// In the header; the upper half of kWords is its length.
constexpr std::size_t kToPort = 2, kSequence = 4, kWords = 12, kChecksum = 16;

std::uint64_t connection_key(std::uint32_t peer, std::uint16_t peer_port, std::uint16_t port) {
  return std::uint64_t{peer} << 32 | std::uint32_t{peer_port} << 16 | port;
}

}  // namespace

TcpStation::TcpStation(VirtualNetwork& network, const HostSpec& host)
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
  tcp_->SetDownTarget(ns3::MakeCallback(&TcpStation::send, this));
  network.attach(host.name, *this);
}

void TcpStation::connected(const ns3::Ptr<FlowSocket>& connection, ns3::Ipv4Address peer,
                           std::uint16_t peer_port, std::uint16_t port) {
  connections_[connection_key(peer.Get(), peer_port, port)] = connection;
}

void TcpStation::receive(std::span<const std::byte> frame) {
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

void TcpStation::send(ns3::Ptr<ns3::Packet> packet, ns3::Ipv4Address, ns3::Ipv4Address destination,
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

bool TcpStation::hold() {
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

}  // namespace tiercast::ns3_runtime
