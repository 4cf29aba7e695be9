// The random listening algorithm itself: what a loss at a receiver does to the window (RLA 3.3,
// rules 2 to 4 and 6; PROTOCOLS 5.3, 5.4). It knows neither packets nor members.
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "protocols/base/units.h"
#include "protocols/common/ewma.h"
#include "protocols/schemes/rla/settings.h"

namespace tiercast::rla {

// The state kept for one receiver.
struct Listener {
  Listener(double interval_weight, std::uint64_t packets_sent)
      : last_signal_packet(packets_sent), interval(interval_weight) {}

  Time cperiod_start = Time::never();  // never: no congestion yet
  std::uint64_t last_signal_packet;    // number of packets sent at the last signal (or at the join)
  Ewma interval;                       // packets between congestion signals
  bool troubled = false;
  std::uint64_t signals = 0;
};

class RandomListening {
 public:
  RandomListening(const Settings& settings, std::uint64_t seed);

  enum class Reaction {
    kSamePeriod,  // not a new signal: it belongs to the last one
    kRare,        // a signal from a receiver that is not troubled
    kIgnored,     // the random draw was above pthresh
    kRandomizedCut,
    kForcedCut,
  };
  // A packet was lost at `listener`. `srtt`: that receiver's; `max_srtt`: the largest of all
  // receivers, >= srtt. `packets_sent`: so far.
  Reaction loss(Time now, Listener& listener, Duration srtt, Duration max_srtt,
                std::uint64_t packets_sent);
  // All receivers have acknowledged a packet.
  void acked_by_all();
  void timeout(Time now);
  // Starts again with the initial window.
  void restart();

  // Once per RTT, over all receivers: recomputes the minimum and the flags, so that a receiver that
  // is silent stops being troubled.
  void begin_recount();
  void recount_interval(const Listener& listener);  // first for all listeners, then
  void recount_troubled(Listener& listener, std::uint64_t packets_sent);  // this one for all
  void forget(const Listener& listener);                                  // the receiver leaves

  double cwnd() const { return cwnd_; }          // packets, 1 .. max_window
  double ssthresh() const { return ssthresh_; }  // packets
  double awnd() const { return awnd_; }          // packets
  std::uint32_t num_trouble_rcvr() const { return num_trouble_rcvr_; }
  double pthresh() const { return pthresh_; }                       // at the last draw
  double min_congestion_interval() const { return min_interval_; }  // packets; 0: none yet
  std::uint64_t signals() const { return signals_; }
  std::uint64_t randomized_cuts() const { return randomized_cuts_; }
  std::uint64_t forced_cuts() const { return forced_cuts_; }
  // For models of the algorithm without a network.
  void set_cwnd(double cwnd) { cwnd_ = cwnd; }

 private:
  bool troubled(const Listener& listener, std::uint64_t packets_sent) const;
  void set_troubled(Listener& listener, bool value);
  void cut(Time now);

  const Settings settings_;
  Rng rng_;
  double cwnd_;
  double ssthresh_;
  double awnd_;
  Time last_window_cut_ = Time::never();  // never: not cut yet
  std::uint32_t num_trouble_rcvr_ = 0;
  double min_interval_ = 0;
  double pthresh_ = 1;
  std::uint64_t signals_ = 0;
  std::uint64_t randomized_cuts_ = 0;
  std::uint64_t forced_cuts_ = 0;
};

}  // namespace tiercast::rla
