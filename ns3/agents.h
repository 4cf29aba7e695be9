// The schemes' cores as hosts of the virtual network. They do what tiercast-send and tiercast-host
// do in real time, and write the same records (docs/agents.md).
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ns3/network/records.h"
#include "ns3/network/virtual_network.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/core/rows.h"
#include "protocols/driver/returning_receiver.h"
#include "protocols/driver/sender_driver.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::ns3_runtime {

// What both kinds of agent have in common: a host, a clock, and a call when the core needs one.
class Agent : public HostEndpoint {
 public:
  Agent(VirtualNetwork& network, Records& records, const v1::SimulatedSession& spec,
        const std::string& host);

  virtual void start() = 0;
  // Writes the last records, then leaves the session.
  virtual void stop() = 0;
  // Writes the last records when the run is over.
  void finish();
  // Writes records now, in addition to those at regular times.
  void report_now();
  // The logical process of its host's switch.
  LogicalProcess& process() { return process_; }

 protected:
  static constexpr std::int64_t kReportNs = 200'000'000;  // as in real time
  static constexpr std::int64_t kSecondNs = 1'000'000'000;

  Time now() const { return Time::nanoseconds(process_.now()); }
  SessionConfig config() const;  // what all agents of a session have in common, and the seed
  // The session's number. parse_scenario() has checked its range.
  std::uint16_t session() const { return static_cast<std::uint16_t>(spec_.session().session()); }
  void call_at(Time due);  // replaces the previous call
  void begin_reports();
  virtual void act() = 0;
  virtual void report(bool second) = 0;

  virtual bool running() const = 0;

  bool wants_records() const { return true; }
  void trace(Time now, std::string_view kind, std::span<const TraceField> fields);

  // False for frames that are not valid UDP packets to this host; a kernel would ignore them, too.
  bool parse(std::span<const std::byte> frame, wire::UdpPacket& packet);
  void send_udp(const wire::UdpFlow& flow, std::span<const std::byte> payload);

  VirtualNetwork& network_;
  Records& records_;
  const v1::SimulatedSession& spec_;
  const HostSpec& host_;
  LogicalProcess& process_;
  const std::string name_;  // in records

 private:
  void report_and_go_on();

  Call<Agent> call_{*this, &Agent::act};
  Call<Agent> next_report_{*this, &Agent::report_and_go_on};
  std::int64_t reports_ = 0;
  std::uint16_t next_ip_id_ = 0;
  std::vector<std::byte> frame_;
};

class SenderAgent : public Agent {
 public:
  SenderAgent(VirtualNetwork& network, Records& records, const v1::SimulatedSession& spec);

  void start() override;
  void stop() override;
  void receive(std::span<const std::byte> frame) override;
  // The highest rank that has a subscriber; -1: nobody subscribes.
  void membership(int top_rank);

 private:
  friend class SenderDriver<SenderAgent>;

  struct Layer {
    LayerCounters counters;
    wire::UdpFlow flow;
  };

  SessionConfig own_config() const;
  void act() override;
  void report(bool second) override;
  bool running() const override { return driver_.running(); }
  void send(Destination to, std::span<const std::byte> message);
  void depart(Time now, const Departure& departure);
  void send_released_and_go_on();

  const Scheme& scheme_;
  const SessionConfig config_;
  SenderDriver<SenderAgent> driver_;
  std::array<Layer, kMaxLayers> layers_{};
  std::vector<std::byte> message_;
  FeedbackCounters feedback_;
};

// May start again after it has stopped (protocols/driver/returning_receiver.h).
class ReceiverAgent : public Agent {
 public:
  // Called for a change of membership at a host: rank, and whether it joins.
  using Membership = std::function<void(const HostSpec&, const v1::SimulatedSession&, Rank, bool)>;

  ReceiverAgent(VirtualNetwork& network, Records& records, const v1::SimulatedSession& spec,
                const v1::SimulatedReceiver& own, Membership membership);

  void start() override;
  void stop() override;
  void receive(std::span<const std::byte> frame) override;

 private:
  friend class ReceiverDriver<ReceiverAgent>;

  SessionConfig own_config(const v1::SimulatedReceiver& own) const;
  void act() override;
  void report(bool second) override;
  bool running() const override { return member_.running(); }
  void send(std::span<const std::byte> message);
  Time join(Rank rank);
  void leave(Rank rank);
  void first_packet(Time now, Rank rank, Duration since_join);
  void deliver(std::uint64_t, std::span<const std::byte>) {}

  Membership membership_;
  ReturningReceiver<ReceiverAgent> member_;
  wire::UdpFlow feedback_;
  std::uint32_t sender_address_ = 0;
  SocketCounters socket_;
};

}  // namespace tiercast::ns3_runtime
