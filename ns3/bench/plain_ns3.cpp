// tiercast-plain-ns3: the traffic of a session through ns-3's own nodes, for comparison.
// SPDX-License-Identifier: GPL-2.0-only
//
// It is what a user of ns-3 would write for one sender and many receivers: a balanced tree of nodes
// with IPv4, point-to-point links with drop-tail queues, static multicast routes, a constant rate.
// There is no queue disc besides the device's queue, no IPv6, and no trace is connected. Prints one
// line of JSON with what arrived; `make bench-ns3` measures the process.
#include <ns3/command-line.h>
#include <ns3/data-rate.h>
#include <ns3/inet-socket-address.h>
#include <ns3/internet-stack-helper.h>
#include <ns3/ipv4-address-helper.h>
#include <ns3/ipv4-list-routing-helper.h>
#include <ns3/ipv4-static-routing-helper.h>
#include <ns3/node-container.h>
#include <ns3/point-to-point-helper.h>
#include <ns3/simulator.h>
#include <ns3/string.h>
#include <ns3/traffic-control-helper.h>
#include <ns3/udp-socket-factory.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ns3;

constexpr std::uint16_t kPort = 5500;
constexpr std::uint32_t kHeaderBytes = 28;  // IPv4, UDP

struct Options {
  std::uint32_t depth = 4;
  std::uint32_t fanout = 2;
  double delay_ms = 5;
  double link_mbit = 6;
  double rate_kbit = 500;  // IP bytes count
  std::uint32_t packet_bytes = 1000;
  double seconds = 30;
};

// Sends packets at equal intervals.
class Source {
 public:
  Source(const Ptr<Socket>& socket, const Options& options)
      : socket_(socket),
        payload_bytes_(options.packet_bytes - kHeaderBytes),
        interval_(Seconds(options.packet_bytes * 8 / (options.rate_kbit * 1e3))) {}

  void send() {
    socket_->Send(Create<Packet>(payload_bytes_));
    ++sent_;
    Simulator::Schedule(interval_, &Source::send, this);
  }
  std::uint64_t sent() const { return sent_; }

 private:
  Ptr<Socket> socket_;
  std::uint32_t payload_bytes_;
  Time interval_;
  std::uint64_t sent_ = 0;
};

std::uint64_t received = 0;

void take(Ptr<Socket> socket) {
  while (socket->Recv() != nullptr) ++received;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine command;
  command.AddValue("depth", "levels of links below the root", options.depth);
  command.AddValue("fanout", "children of a node", options.fanout);
  command.AddValue("delay-ms", "of a link", options.delay_ms);
  command.AddValue("link-mbit", "rate of a link", options.link_mbit);
  command.AddValue("rate-kbit", "of the session, IP bytes", options.rate_kbit);
  command.AddValue("packet-bytes", "IP bytes", options.packet_bytes);
  command.AddValue("seconds", "of virtual time", options.seconds);
  command.Parse(argc, argv);

  std::uint32_t inner = 0;
  std::uint32_t level = 1;
  for (std::uint32_t i = 0; i < options.depth; ++i, level *= options.fanout) inner += level;
  const std::uint32_t nodes = inner + level;
  NodeContainer all;
  all.Create(nodes + 1);  // the last one is the sender's node
  Ipv4StaticRoutingHelper routing;
  Ipv4ListRoutingHelper list;
  list.Add(routing, 0);
  InternetStackHelper stack;
  stack.SetIpv6StackInstall(false);
  stack.SetRoutingHelper(list);
  stack.Install(all);

  PointToPointHelper link;
  link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("50p"));
  link.SetDeviceAttribute(
      "DataRate", DataRateValue(DataRate(static_cast<std::uint64_t>(options.link_mbit * 1e6))));
  link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(std::llround(options.delay_ms * 1e3))));
  TrafficControlHelper no_queue_disc;
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
  const auto connect = [&](std::uint32_t a, std::uint32_t b) {
    const NetDeviceContainer ends = link.Install(all.Get(a), all.Get(b));
    addresses.Assign(ends);
    addresses.NewNetwork();
    no_queue_disc.Uninstall(ends);
    return ends;
  };

  const Ipv4Address group("239.192.0.8");
  std::vector<Ptr<NetDevice>> upstream(nodes);
  std::vector<NetDeviceContainer> downstream(inner);
  const NetDeviceContainer first = connect(nodes, 0);
  upstream[0] = first.Get(1);
  for (std::uint32_t node = 1; node < nodes; ++node) {
    const std::uint32_t parent = (node - 1) / options.fanout;
    const NetDeviceContainer ends = connect(parent, node);
    downstream[parent].Add(ends.Get(0));
    upstream[node] = ends.Get(1);
  }
  for (std::uint32_t node = 0; node < inner; ++node) {
    routing.AddMulticastRoute(all.Get(node), Ipv4Address::GetAny(), group, upstream[node],
                              downstream[node]);
  }
  routing.SetDefaultMulticastRoute(all.Get(nodes), first.Get(0));

  for (std::uint32_t node = inner; node < nodes; ++node) {
    Ptr<Socket> socket = Socket::CreateSocket(all.Get(node), UdpSocketFactory::GetTypeId());
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    socket->SetRecvCallback(MakeCallback(&take));
  }
  Ptr<Socket> socket = Socket::CreateSocket(all.Get(nodes), UdpSocketFactory::GetTypeId());
  socket->Bind();
  socket->Connect(InetSocketAddress(group, kPort));
  Source source(socket, options);
  Simulator::Schedule(Seconds(0), &Source::send, &source);
  Simulator::Stop(Seconds(options.seconds));
  Simulator::Run();
  std::printf("{\"receivers\": %zu, \"sent\": %llu, \"received\": %llu}\n",
              std::size_t{nodes - inner}, static_cast<unsigned long long>(source.sent()),
              static_cast<unsigned long long>(received));
  Simulator::Destroy();
  return 0;
}
