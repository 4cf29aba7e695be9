// RLA's receiver: acknowledges every data packet selectively, and delivers the object in order (RLA
// 3.3, rule 1; RFC 2018; PROTOCOLS 5.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/common/rate_meter.h"
#include "protocols/common/reception.h"
#include "protocols/common/strays.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rla/messages.h"
#include "protocols/schemes/rla/settings.h"

namespace tiercast::rla {

class Receiver final : public ReceiverCore {
 public:
  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return hello_at_; }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override;

  // Whether a part of the object is missing for good: this receiver came too late for it, or the
  // sender went on without it.
  bool incomplete() const { return incomplete_; }

 private:
  // A packet that waits for earlier ones.
  struct Slot {
    bool filled = false;
    bool last = false;
    std::uint16_t length = 0;
    std::uint64_t offset = 0;
  };

  bool belongs(const wire::RlaData& data, std::size_t part);
  void begin(const wire::RlaData& data);
  void store(const wire::RlaData& data, std::span<const std::byte> payload);
  void skip_to(std::uint32_t base, Sink& sink);
  void deliver_in_order(Sink& sink);
  void take(Slot& slot, Sink& sink);
  void note_run(std::uint32_t seq);
  void acknowledge(const wire::RlaData& data, Sink& sink);
  void send(wire::RlaAck& ack, Sink& sink) const;
  void say_hello(Sink& sink);
  Slot& slot(std::uint32_t seq) { return slots_[seq % ring_]; }
  std::byte* payload(std::uint32_t seq) { return &payloads_[std::size_t{seq % ring_} * capacity_]; }

  const SessionConfig config_;
  const Settings settings_;
  const std::uint32_t ring_;  // number of slots: a power of two, so that packet numbers may wrap
  const std::uint32_t capacity_;  // payload bytes of a packet
  std::vector<Slot> slots_;
  std::unique_ptr<std::byte[]> payloads_;  // not initialised, so that unused memory is never
                                           // touched

  Rng rng_;
  Time now_;
  Time hello_at_ = Time::never();
  unsigned hellos_ = 0;
  Reception reception_;
  mutable RateMeter meter_;

  bool started_ = false;       // data has come
  std::uint32_t first_ = 0;    // the object's first packet; 0 for a stream
  std::uint32_t cum_ack_ = 0;  // next packet expected
  std::uint32_t reach_ = 0;    // one above the highest packet received
  bool incomplete_ = false;
  bool complete_ = false;           // the whole object was delivered
  std::uint64_t delivered_ = 0;     // bytes
  std::uint64_t delivered_to_ = 0;  // offset in the object that has been delivered
  std::array<wire::RlaSack, wire::RlaAck::kMaxRecords + 1>
      runs_{};  // latest first (RFC 2018, section 4)
  std::size_t run_count_ = 0;
  Strays strays_;
  unsigned repeats_ = 0;  // packets that were not new here, and no repeats, since the last new one
  Time waiting_since_;    // for packet cum_ack_
};

}  // namespace tiercast::rla
