// RLA's sender: a window over multicast data that every receiver acknowledges (RLA 3.3; PROTOCOLS
// 5.2 to 5.5). listening.h has what losses do to the window, scoreboard.h which receiver has which
// packet, members.h the receivers, and repairs.h what is repeated.
//
// Receivers register with a hello before data flows, and with their first acknowledgement
// afterwards. Data flows a while after the first hello; without one, which is so after a restart of
// the sender, a little later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/common/departures.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rla/listening.h"
#include "protocols/schemes/rla/members.h"
#include "protocols/schemes/rla/messages.h"
#include "protocols/schemes/rla/repairs.h"
#include "protocols/schemes/rla/scoreboard.h"
#include "protocols/schemes/rla/settings.h"

namespace tiercast::rla {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override;
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  // Whether every receiver that is still a member has acknowledged the object's last packet.
  bool finished() const override { return finished_; }

  // For tests and reports.
  struct Counts {
    std::uint64_t packets = 0;     // multicast data, including repeats
    std::uint64_t multicasts = 0;  // repeats by multicast
    std::uint64_t unicasts = 0;    // repeats to one receiver
    std::uint64_t timeouts = 0;
    std::uint64_t acknowledged = 0;  // packets that all receivers have
    std::uint64_t dropped = 0;       // receivers
  };
  const Counts& counts() const { return counts_; }
  const RandomListening& listening() const { return listening_; }
  std::uint32_t receivers() const { return board_.members(); }
  std::uint32_t min_last_ack() const { return board_.base(); }
  Duration max_srtt() const { return members_.max_srtt(); }
  std::uint64_t signals(std::uint32_t receiver) const;  // 0 if the receiver is not known

 private:
  enum class Change { kJoined, kLeft, kSilent, kSlow };

  Time advance(Time now) { return now_ = std::max(now_, now); }
  Member* add(std::uint32_t source, std::uint32_t address, std::uint32_t cum_ack, Sink& sink);
  void remove(Member& member, Change why, Sink& sink);
  void remove_all(Sink& sink);
  void hello(const wire::RlaAck& ack, std::uint32_t address, Sink& sink);
  bool is_far_off(const wire::RlaAck& ack) const;
  // Leaves out of it what its source cannot have, and so all beyond the window. False: its source
  // has proven nothing.
  bool keep_to_proof(wire::RlaAck& ack, Proof& proof);
  void acknowledged(Member& member, const wire::RlaAck& ack, Sink& sink);
  bool detect_losses(Member& member);
  void congested(Member& member, Sink& sink);
  void evaluate(std::uint32_t seq);
  void slide();

  void pump(Sink& sink, bool processed = false);
  std::uint32_t sendable() const;  // new packets that the windows allow
  void repair(std::uint32_t& budget, Sink& sink);
  void unicast(std::uint32_t seq, const Member& to, Sink& sink);
  std::size_t write(std::uint32_t seq, bool again, std::span<std::byte> message);
  Duration repair_after() const;
  void arm();
  void overdue(Sink& sink);
  void expire(Sink& sink);
  void refresh(Sink& sink);
  void drop_silent(Sink& sink);
  Duration timeout_after() const;
  void trace_window(Sink& sink);

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  RandomListening listening_;
  Members members_;
  Scoreboard board_;
  Repairs repairs_;
  Departures departures_;
  std::vector<std::byte> message_;  // for packets that leave by unicast
  Counts counts_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;

  const std::uint32_t first_;    // number of the first packet
  std::uint32_t payload_;        // bytes of the object in each packet
  std::uint32_t packets_;        // of the object; 0: a stream
  std::uint32_t max_reach_all_;  // highest packet that all receivers have received
  bool whole_ = true;            // nothing has been dropped from the window yet
  bool subscribed_ = false;
  bool started_ = false;  // data flows
  bool finished_ = false;
  bool probe_ = false;         // no receiver is known, and one packet may leave to find out whether
                               // any listens
  std::uint32_t credits_ = 0;  // packets released and not yet written
  double backoff_ = 1;
  // Sum of the times from a packet's departure until all receivers had acknowledged it, for packets
  // sent once, since the last record (RLA 5.1).
  Duration rtt_sum_;
  std::uint32_t rtt_samples_ = 0;

  Time now_;
  Time unknown_receiver_at_ = Time::never();  // when a receiver that is not a member sent a message
  Time start_at_ = Time::never();
  Time departure_ = Time::never();   // end of the random processing time
  Time overdue_at_ = Time::never();  // when all receivers have acknowledged nothing for too long
  Time expires_ = Time::never();     // the retransmission time-out
  Time refresh_at_;
};

}  // namespace tiercast::rla
