// RLM's receiver: join experiments, one layer at a time. It backs off where they fail, and learns
// from others' announcements (PROTOCOLS 10; ns-2 tcl/rlm).
//
//   S steady ── loss ──> H hysteresis ── T_D ──> M measurement ── T_D ──> S
//     │                                             └ > 25 % lost: drop ──> D
//     └ loss while an own experiment is pending: drop ──> D ── T_D ──> S
#pragma once

#include <array>
#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/common/layered_reception.h"
#include "protocols/core/core.h"
#include "protocols/schemes/rlm/messages.h"
#include "protocols/schemes/rlm/settings.h"

namespace tiercast::rlm {

class Receiver final : public ReceiverCore {
 public:
  enum class State { kSteady, kHysteresis, kMeasurement, kDrop };

  explicit Receiver(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return std::min(join_at_, detect_at_); }
  void stop(Time now, Sink& sink) override;
  ReceiverCounters counters() const override { return reception_.counters(now_); }

  // For tests and reports.
  State state() const { return state_; }
  double t_join(Rank rank) const { return layers_[rank].t_join; }  // s
  double t_detect() const { return t_detect_; }                    // s
  double t_detect_var() const { return t_detect_var_; }            // s

 private:
  struct Layer {
    double t_join = 0;  // T_J, s
    // When an experiment with this layer was last started: by anybody; and by this receiver or one
    // above its level. never: not yet.
    Time joined_at = Time::never();
    Time pending_at = Time::never();
    Time added_at = Time::never();  // when this receiver joined it
  };

  void receive_announcement(Time now, const wire::RlmAnnouncement& announcement);
  void on_loss(Time now, Sink& sink);
  void on_join_timer(Time now, Sink& sink);
  void on_detect_timer(Time now, Sink& sink);
  void add_layer(Time now, Sink& sink);
  void drop_layer(Time now, Sink& sink);
  void enter(State state, Time now, Sink& sink);
  void fail(Time now, int rank, Sink& sink);
  int highest_pending(Time now) const;  // rank; -1: none
  bool inferior_pending(Time now) const;
  bool recent(Time then, Time now) const;
  bool top_delivers(Time now);
  void set_join_timer(Time now);
  void set_detect_timer(Time now, double deviations);
  Layer& top() { return layers_[static_cast<std::size_t>(reception_.top())]; }  // there must be one
  double level() const { return reception_.top() + 1; }

  const SessionConfig config_;
  const Settings settings_;
  Rng rng_;
  LayeredReception reception_;
  Time now_;

  State state_ = State::kSteady;
  std::array<Layer, kMaxLayers> layers_{};
  std::array<bool, kMaxLayers> delivers_{};  // whether a packet has come since it was joined
  double t_detect_;                          // T_D, s
  double t_detect_var_;                      // s
  Time join_at_ = Time::never();
  Time detect_at_ = Time::never();
  std::uint64_t packets_before_ = 0;  // counters when state M was entered
  std::uint64_t lost_before_ = 0;
  std::uint64_t lost_ = 0;  // including marked packets
};

}  // namespace tiercast::rlm
