// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/udp_flows.h"

#include <algorithm>

#include "ns3/traffic/on_off.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::ns3_runtime {

// The receiving end of a flow at its host, which may be that of other flows, too.
class UdpFlows::Sink : public HostEndpoint {
 public:
  Sink(VirtualNetwork& network, const v1::UdpFlow& spec)
      : address_(network.host(spec.destination()).address), port_(spec.port()) {
    network.attach(spec.destination(), *this);
  }

  void receive(std::span<const std::byte> frame) override {
    wire::UdpPacket packet;
    if (wire::parse_udp_frame(frame, packet) != wire::FrameError::kOk) return;
    if (packet.destination == address_ && packet.destination_port == port_) {
      ++packets_;
    }
  }

  std::uint64_t packets() const { return packets_; }

 private:
  const std::uint32_t address_;
  const std::uint32_t port_;
  std::uint64_t packets_ = 0;
};

class UdpFlows::Source {
 public:
  Source(Kernel& kernel, VirtualNetwork& network, const v1::UdpFlow& spec, Rng rng)
      : network_(network),
        spec_(spec),
        host_(network.host(spec.source())),
        process_(network.process_of(host_.switch_name)),
        rng_(rng) {
    const HostSpec& to = network.host(spec.destination());
    flow_.source_mac = host_.mac;
    flow_.destination_mac = host_.gateway_mac;
    flow_.source = host_.address;
    flow_.destination = to.address;
    flow_.source_port = flow_.destination_port = static_cast<std::uint16_t>(spec.port());
    if (spec.ecn()) flow_.ecn = spec.l4s() ? wire::Ecn::kEct1 : wire::Ecn::kEct0;
    frame_.resize(wire::kEthernetBytes + spec.packet_size());
    kernel.pause_at(spec.start_ns(), [this] { begin(); });
  }

  void report(Records& records, std::uint64_t arrived) const {
    const auto figure = [](std::uint64_t value) { return static_cast<double>(value); };
    records.add(process_.now(), spec_.name(), "udp",
                {{"bytes", figure(arrived * spec_.packet_size())},
                 {"packets", figure(arrived)},
                 {"sent_bytes", figure(sent_ * spec_.packet_size())},
                 {"sent_packets", figure(sent_)}});
  }

 private:
  // Starts a period of packets at the flow's rate. The first packet leaves at once.
  void begin() {
    const std::int64_t left = spec_.stop_ns() - process_.now();
    if (left <= 0) return;
    std::int64_t period = left;
    if (spec_.has_on_off()) {
      period = std::min(left, static_cast<std::int64_t>(draw(spec_.on_off().on(), rng_)));
    }
    ends_ = process_.now() + period;
    send();
  }

  void send() {
    if (process_.now() >= ends_) {
      pause();
      return;
    }
    wire::write_udp_headers(flow_, next_ip_id_++, frame_);
    network_.send(host_, frame_);
    ++sent_;
    const double gap =
        8e9 * static_cast<double>(spec_.packet_size()) / static_cast<double>(spec_.rate_bps());
    const std::int64_t next = process_.now() + static_cast<std::int64_t>(gap);
    process_.schedule(next_send_, std::min(next, ends_));
  }

  void pause() {
    if (!spec_.has_on_off()) return;
    const auto off = static_cast<std::int64_t>(draw(spec_.on_off().off(), rng_));
    process_.schedule(next_period_, process_.now() + off);
  }

  VirtualNetwork& network_;
  const v1::UdpFlow& spec_;
  const HostSpec& host_;
  LogicalProcess& process_;
  wire::UdpFlow flow_;
  std::vector<std::byte> frame_;
  Rng rng_;
  std::int64_t ends_ = 0;   // end of the current period
  std::uint64_t sent_ = 0;  // packets
  std::uint16_t next_ip_id_ = 0;
  Call<Source> next_send_{*this, &Source::send};
  Call<Source> next_period_{*this, &Source::begin};
};

UdpFlows::UdpFlows(Kernel& kernel, VirtualNetwork& network, Records& records,
                   const v1::Scenario& scenario)
    : records_(records) {
  std::uint16_t number = 0;
  for (const v1::UdpFlow& spec : scenario.udp()) {
    sinks_.push_back(std::make_unique<Sink>(network, spec));
    sources_.push_back(std::make_unique<Source>(kernel, network, spec,
                                                flow_rng(scenario.seed(), FlowKind::kUdp, number)));
    ++number;
  }
}

UdpFlows::~UdpFlows() = default;

void UdpFlows::report() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i]->report(records_, sinks_[i]->packets());
  }
}

}  // namespace tiercast::ns3_runtime
