// PGMCC's sender: elects the acker and runs the window on its acknowledgements (PROTOCOLS 9). Its
// state does not grow with the receivers, because it tracks only one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/common/departures.h"
#include "protocols/common/per_second.h"
#include "protocols/common/rtt_estimator.h"
#include "protocols/core/core.h"
#include "protocols/schemes/pgmcc/messages.h"
#include "protocols/schemes/pgmcc/settings.h"
#include "protocols/schemes/pgmcc/window.h"

namespace tiercast::pgmcc {

class Sender final : public SenderCore {
 public:
  explicit Sender(const SessionConfig& config);

  void start(Time now, Sink& sink) override;
  void receive(Time now, const Arrival& arrival, Sink& sink) override;
  void timer(Time now, Sink& sink) override;
  Time next_timer() const override { return expires_; }
  void stop(Time now, Sink& sink) override;
  void membership(Time now, int top_rank, Sink& sink) override;
  std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) override;
  std::uint64_t invalid() const override { return invalid_; }
  std::uint64_t implausible() const override { return implausible_; }
  bool ecn_capable() const override { return settings_.ecn; }

  // For tests and reports.
  struct Counts {
    std::uint64_t packets = 0;
    std::uint64_t acks = 0;
    std::uint64_t naks = 0;  // including dummies
    std::uint64_t cuts = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t switches = 0;  // changes of the acker
  };
  const Counts& counts() const { return counts_; }
  const Window& window() const { return window_; }
  bool has_acker() const { return has_acker_; }
  std::uint32_t acker() const { return acker_; }

 private:
  enum class Reason { kElected, kSlower, kLeft, kSilent };

  void advance(Time now) { now_ = now_ > now ? now_ : now; }
  // Whether it names a packet that was never sent; whether those that it names are of the latest;
  // whether its times fit together.
  bool unsent(const wire::PgmccFeedback& feedback) const;
  bool recent(const wire::PgmccFeedback& feedback) const;
  bool timely(const wire::PgmccFeedback& feedback) const;
  // Whether it is a NAK whose source does not lack the packet by what it says besides.
  static bool contradicts_itself(const wire::PgmccFeedback& feedback);
  Duration rtt_of(const wire::PgmccFeedback& feedback) const;
  // Whether the packet that it echoes named its source as the acker.
  bool asked_for(const wire::PgmccFeedback& feedback) const;
  void acknowledged(const wire::PgmccFeedback& feedback, Sink& sink);
  void reported(const wire::PgmccFeedback& feedback, Sink& sink);
  void choose(const wire::PgmccFeedback& feedback, Duration rtt, Reason reason, Sink& sink);
  void dismiss(Reason reason, Sink& sink);
  void pump(Sink& sink);
  void arm();
  void trace_acker(Reason reason, double candidate, double before, Sink& sink) const;
  void trace_window(Sink& sink) const;

  const SessionConfig config_;
  const Settings settings_;
  Window window_;
  Counts counts_;
  std::uint64_t invalid_ = 0;
  std::uint64_t implausible_ = 0;

  bool subscribed_ = false;
  bool has_acker_ = false;
  std::uint32_t acker_ = 0;
  Departures departures_;
  // Whom each packet named, for as long as `departures_` knows when it left: several elections may
  // fall into one round trip, and all former ackers' acknowledgements are then under way.
  std::vector<std::optional<std::uint32_t>> named_;
  Proof proof_;            // of all ackers
  RttEstimator rtt_;       // of the acker
  double loss_ = 0;        // p of the acker
  unsigned timeouts_ = 0;  // in a row
  static constexpr std::uint32_t kConfirmed = 32;
  std::array<std::uint32_t, kConfirmed> confirmed_{};  // the latest packets for which a NAK was
                                                       // confirmed
  std::uint32_t confirmations_ = 0;                    // 0 .. 2 kConfirmed - 1
  PerSecond reflections_;
  std::uint32_t credits_ = 0;  // packets released and not yet written

  Time now_;
  Time expires_ = Time::never();
  Time trace_at_;
};

}  // namespace tiercast::pgmcc
