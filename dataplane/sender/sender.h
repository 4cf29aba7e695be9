// The sender between its core, its pacer and its port: paces layers, builds
// packets, takes feedback, counts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "agent/event_loop.h"
#include "agent/histogram.h"
#include "agent/run.h"
#include "agent/telemetry.h"
#include "dataplane/sender/port.h"
#include "dataplane/sender/responder.h"
#include "dataplane/sender/sender_addresses.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/core/rows.h"
#include "protocols/pacer/pacer.h"
#include "protocols/wire/udp_frame.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {

class Sender : public agent::Activity, private Sink {
 public:
  // All references must outlive the object.
  Sender(const SessionConfig& session, const Scheme& scheme, const SenderAddresses& addresses,
         Port& port, agent::EventLoop& loop, agent::Telemetry& telemetry);

  void start(Time now) override;
  void membership(Time now, int top_rank) override;
  void run(Time now) override;
  Time next_deadline() const override;
  void stop(Time now) override;
  void report(Time now, bool second, bool last) override;
  bool finished() const override { return core_->finished(); }

 private:
  // Sink
  void send(Destination to, std::span<const std::byte> message) override;
  void join(Rank rank) override;
  void leave(Rank rank) override;
  void set_rate(Rank layer, Rate rate) override;
  void release(Rank layer, std::uint32_t packets) override;
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void trace(std::string_view kind, std::span<const TraceField> fields) override;

  void receive_all();
  void handle_frame(std::span<std::byte> frame);
  void send_released();
  void send_data(Rank layer);
  void report_pacer(Time now, std::string_view kind, const agent::Histogram& late,
                    std::uint64_t dropped);
  std::uint64_t dropped() const;

  const SessionConfig session_;
  const wire::SchemeId scheme_;
  const SenderAddresses addresses_;
  Port& port_;
  agent::Telemetry& telemetry_;
  std::unique_ptr<SenderCore> core_;
  Pacer pacer_;

  std::array<wire::UdpFlow, kMaxLayers> flows_{};  // of each layer's data
  std::vector<std::byte> payload_;                  // of every data message: byte i holds i mod 256
  std::uint16_t next_ip_id_ = 0;
  Time now_;
  bool running_ = false;

  std::array<Rate, kMaxLayers> rates_{};
  std::array<std::uint32_t, kMaxLayers> released_{};  // packets that may leave at once
  std::array<LayerCounters, kMaxLayers> layers_{};
  FeedbackCounters feedback_;
  std::uint64_t control_dropped_ = 0;
  agent::Histogram late_;        // since the last "pacer" record
  agent::Histogram late_total_;  // since the start
  std::uint64_t dropped_reported_ = 0;
};

}  // namespace tiercast::sender
