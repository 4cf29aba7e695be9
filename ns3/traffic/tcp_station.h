// A host of TCP flows.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <ns3/ipv4-address.h>
#include <ns3/ipv4-interface.h>
#include <ns3/node.h>
#include <ns3/nstime.h>
#include <ns3/packet.h>
#include <ns3/random-variable-stream.h>
#include <ns3/tcp-l4-protocol.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "ns3/network/virtual_network.h"
#include "ns3/traffic/tcp_socket.h"

namespace tiercast::ns3_runtime {

// A host: the TCP of an ns-3 node, whose IP packets are read and written here. ns-3's own layers
// below TCP would take half of a packet's time, with two events in each direction.
class TcpStation : public HostEndpoint {
 public:
  TcpStation(VirtualNetwork& network, const HostSpec& host);

  const HostSpec& host() const { return host_; }
  ns3::Ptr<ns3::Node> node() const { return node_; }

  // Packets to `port` leave after a random time of up to `most`, together with those that come in
  // the meantime: the overhead_ of ns-2's TCP.
  void hold_back(std::uint16_t port, ns3::Time most) { held_[port].most = most; }

  // What comes for the connection goes there straight: TcpL4Protocol would read the header once
  // more to find it. The ends are those of the packets that it sends.
  void connected(const ns3::Ptr<FlowSocket>& connection, ns3::Ipv4Address peer,
                 std::uint16_t peer_port, std::uint16_t port);

  void receive(std::span<const std::byte> frame) override;

 private:
  void send(ns3::Ptr<ns3::Packet> packet, ns3::Ipv4Address source, ns3::Ipv4Address destination,
            std::uint8_t protocol, ns3::Ptr<ns3::Ipv4Route> route);
  bool hold();  // whether frame_ leaves later

  struct Held {
    ns3::Time most;
    std::vector<std::vector<std::byte>> frames;
  };

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

}  // namespace tiercast::ns3_runtime
