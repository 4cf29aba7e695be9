#include "protocols/schemes/tfmcc/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/base/serial.h"
#include "protocols/wire/quantities.h"

namespace tiercast::tfmcc {
namespace {

// ts_gran: the resolution of the time stamps (RFC 4654, 3.2).
constexpr Duration kClockGranularity = Duration::microseconds(1);
// The longest interval of packets that silence brings about (RFC 4654, 3.3), s.
constexpr double kSilentInterval = 8;
// ... and that a report does, which may ask for nothing at all (RFC 5348's t_mbi), s.
constexpr double kMaxInterval = 64;
// Slow start's rise is this fine, of R_max.
constexpr double kClimbingStep = 1.0 / 16;

}  // namespace

Sender::Sender(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), max_rtt_(settings_.initial_rtt) {
  // A restarted sender must not look like the old one: all numbers start anywhere.
  Rng rng(config.seed);
  seq_ = static_cast<std::uint32_t>(rng.next());
  fb_round_ = static_cast<std::uint16_t>(rng.next());
}

Time Sender::advance(Time now) { return now_ = std::max(now_, now); }

void Sender::start(Time now, Sink&) { now_ = now; }

void Sender::stop(Time now, Sink& sink) { membership(now, -1, sink); }

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now = advance(now);
  if (top_rank >= 0 && !running_) {
    begin(now, sink);
  } else if (top_rank < 0 && running_) {
    running_ = false;
    rate_ = Rate::zero();
    sink.set_rate(0, rate_);
  }
}

// RFC 4654, 3.1.
void Sender::begin(Time now, Sink& sink) {
  running_ = true;
  slow_start_ = true;
  climb_due_ = Time::never();
  max_rtt_ = settings_.initial_rtt;
  clr_valid_ = clr_leaves_ = clr_lost_ = false;
  clr_rate_ = Rate::zero();
  no_rise_until_ = feedback_awaited_since_ = now;
  echo_ = clr_echo_ = {};
  set_rate(Rate::bytes_per_second(config_.packet_size / max_rtt_.seconds()), sink);
  begin_round(now);
}

// RFC 4654, 3.2: R_max does not fall below the interval of packets.
void Sender::set_rate(Rate rate, Sink& sink) {
  const Rate floor = Rate::bytes_per_second(config_.packet_size / kMaxInterval);
  rate = std::min(std::max(rate, floor), settings_.max_rate);
  if (rate == rate_) return;
  rate_ = rate;
  max_rtt_ = std::max(max_rtt_, rate_.time_for(config_.packet_size) + kClockGranularity);
  sink.set_rate(0, rate_);
}

Time Sender::next_timer() const {
  if (!running_) return Time::never();
  return std::min({round_ends(), silence_due(), climb_due_});
}

void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (!running_) return;
  if (now >= climb_due_) climb(now, sink);
  if (now >= silence_due()) check_silence(now, sink);
  if (now < round_ends()) return;
  // T; without feedback of others until the first one comes, but 2T at most.
  if (others_heard_ || overtime_) {
    end_round(now, sink);
  } else {
    overtime_ = true;
  }
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::TfmccFeedback feedback;
  if (wire::parse(arrival.message, feedback) != wire::Error::kOk ||
      feedback.session != config_.session) {
    ++invalid_;
    return;
  }
  if (!running_) return;
  const Duration sample = Duration::microseconds(wire::clock_us(now) - feedback.echo_time_us);
  // Of a packet that was not sent, or long ago. R_max takes the largest, and then falls slowly: 63
  // s would hold the rate down for an hour.
  if (sample > settings_.max_rtt) {
    ++implausible_;
    return;
  }
  take_report(now, feedback, std::max(sample, kMinRtt), sink);
}

void Sender::take_report(Time now, const wire::TfmccFeedback& feedback, Duration sample,
                         Sink& sink) {
  ++reports_;
  feedback_awaited_since_ = now;
  if (!climb_due_.is_never()) climb(now, sink);  // as far as it would be by now
  // RFC 4654, 3.3: a rate that was calculated with R_max is corrected with the RTT measured here.
  Rate wanted = Rate::bytes_per_second(feedback.rate);
  if (feedback.have_loss && !feedback.have_rtt) wanted = wanted * (max_rtt_ / sample);
  measure_max_rtt(sample);
  if (feedback.have_loss) {  // RFC 4654, 3.6
    slow_start_ = false;
    climb_due_ = Time::never();
  }

  const bool from_clr = clr_valid_ && feedback.source == clr_;
  Echo echo{Urgency::kClr,     feedback.source,  feedback.rate,
            feedback.fb_round, feedback.time_us, now};
  if (!from_clr) {
    echo.urgency = feedback.have_rtt ? Urgency::kMeasured : Urgency::kUnmeasured;
    suppress(feedback);
  }
  if (from_clr || limits(feedback, wanted)) {
    clr_rtt_ = sample;
    if (!from_clr) choose_clr(now, feedback, wanted, sink);
    if (!from_clr || !feedback.have_rtt) echo.urgency = Urgency::kNewClr;
    if (from_clr && feedback.leave != clr_leaves_)
      trace_clr(feedback.leave ? Reason::kLeft : Reason::kNoClr, sink);
    clr_leaves_ = feedback.leave;
    clr_halved_ = false;
    clr_heard_at_ = now;
    clr_echo_ = echo;
    follow_clr(now, wanted, sink);
  }
  offer_echo(echo);
  if (overtime_ && others_heard_) end_round(now, sink);
}

// RFC 4654, 3.2.
void Sender::measure_max_rtt(Duration sample) {
  peak_rtt_ = std::max(peak_rtt_, sample);
  max_rtt_ = std::max(max_rtt_, sample);
}

// Whether a receiver that is not the CLR becomes it: RFC 4654, 3.3, cases 1 to 3. In slow start X
// rises towards the lowest reported rate, and it is that one that must not be exceeded (3.6).
bool Sender::limits(const wire::TfmccFeedback& feedback, Rate wanted) const {
  if (feedback.leave) return false;
  if (!clr_valid_ || clr_leaves_) return true;
  return wanted < (slow_start_ ? std::max(rate_, clr_rate_) : rate_);
}

// RFC 4654, 3.3: after a CLR that has left or died, the rate does not rise for a round, so that
// others can say that they are slower.
void Sender::choose_clr(Time now, const wire::TfmccFeedback& feedback, Rate wanted, Sink& sink) {
  const bool none = !clr_valid_ || clr_leaves_;
  if (clr_lost_ || clr_leaves_) no_rise_until_ = now + round_length();
  clr_valid_ = true;
  clr_leaves_ = clr_lost_ = false;
  clr_ = feedback.source;
  clr_rate_ = wanted;
  clr_chosen_at_ = now;
  trace_clr(none ? Reason::kNoClr : Reason::kSlower, sink);
}

// RFC 4654, 3.3: down at once, up by at most a packet per R_max; 3.6: in slow start to the CLR's
// rate over the course of an RTT.
void Sender::follow_clr(Time now, Rate wanted, Sink& sink) {
  clr_rate_ = wanted;
  if (wanted <= rate_) {
    climb_due_ = Time::never();
    set_rate(wanted, sink);
  } else if (now >= no_rise_until_) {
    if (slow_start_) {
      climb_from_ = rate_;
      climb_began_ = now;
      climb_due_ = now + max_rtt_ * kClimbingStep;
    } else {
      const Rate step = Rate::bytes_per_second(config_.packet_size / max_rtt_.seconds());
      set_rate(std::min(wanted, rate_ + step), sink);
    }
  }
  trace_rate(sink);
}

// One of the small steps that reach clr_rate_ after R_max.
void Sender::climb(Time now, Sink& sink) {
  const double share = std::min((now - climb_began_) / max_rtt_, 1.0);
  climb_due_ = share < 1 ? now + max_rtt_ * kClimbingStep : Time::never();
  set_rate(climb_from_ + (clr_rate_ - climb_from_) * share, sink);
}

// RFC 4654, 3.3. The RTT is R_max: the CLR's own may be shorter than the interval of packets, and
// so of its reports.
Time Sender::silence_due() const {
  Time due = feedback_awaited_since_ + max_rtt_ * settings_.silence;
  if (!clr_valid_) return due;
  due = std::min(due, clr_heard_at_ + max_rtt_ * settings_.silence);
  if (clr_halved_) return due;
  return std::min(due, std::max(clr_heard_at_ + max_rtt_ * settings_.halve_after,
                                clr_chosen_at_ + max_rtt_ * settings_.silence));
}

void Sender::check_silence(Time now, Sink& sink) {
  const Duration patience = max_rtt_ * settings_.silence;
  if (now >= feedback_awaited_since_ + patience) {
    feedback_awaited_since_ = now;
    const Rate floor = Rate::bytes_per_second(config_.packet_size / kSilentInterval);
    set_rate(std::max(rate_ * 0.5, std::min(rate_, floor)), sink);
    climb_due_ = Time::never();
  }
  if (!clr_valid_) return;
  if (now >= clr_heard_at_ + patience) {
    clr_valid_ = false;
    clr_lost_ = true;
    trace_clr(Reason::kSilent, sink);
  } else if (!clr_halved_ && now >= clr_heard_at_ + max_rtt_ * settings_.halve_after &&
             now >= clr_chosen_at_ + patience) {
    clr_halved_ = true;
    set_rate(rate_ * 0.5, sink);
    climb_due_ = Time::never();
  }
}

void Sender::begin_round(Time now) {
  ++fb_round_;
  round_began_ = now;
  overtime_ = false;
  others_heard_ = false;
  clr_echoed_ = false;
  reports_ = 0;
  peak_rtt_ = Duration::zero();
  supp_rate_ = wire::TfmccData::kNoRate;
}

// RFC 4654, 3.4.
Duration Sender::round_length() const { return max_rtt_ * settings_.round_rtts; }

Time Sender::round_ends() const { return round_began_ + round_length() * (overtime_ ? 2 : 1); }

// RFC 4654, 3.2 and 3.4.
void Sender::end_round(Time now, Sink& sink) {
  max_rtt_ = std::max({max_rtt_ * settings_.rtt_decay, peak_rtt_,
                       rate_.time_for(config_.packet_size) + kClockGranularity});
  const TraceField fields[] = {{"round", static_cast<double>(fb_round_)},
                               {"length_s", (now - round_began_).seconds()},
                               {"reports", static_cast<double>(reports_)},
                               {"x_Bps", rate_.bytes_per_second()},
                               {"r_max_s", max_rtt_.seconds()}};
  sink.trace("tfmcc.round", fields);
  begin_round(now);
}

// RFC 4654, 3.4: by the rate as it was reported; a corrected one would suppress too little.
void Sender::suppress(const wire::TfmccFeedback& feedback) {
  others_heard_ = true;
  if (feedback.fb_round != fb_round_ || supp_rate_ <= feedback.rate) return;
  supp_rate_ = wire::to_u32(feedback.rate * (1 - settings_.suppression));
}

// RFC 4654, 3.5: the most urgent one is kept; of equal ones that of the older round, then that with
// the lower rate.
void Sender::offer_echo(const Echo& echo) {
  if (echo.urgency < echo_.urgency) return;
  if (echo.urgency == echo_.urgency) {
    const std::int16_t later = serial_difference(echo.fb_round, echo_.fb_round);
    if (later > 0 || (later == 0 && echo.rate >= echo_.rate)) return;
  }
  echo_ = echo;
}

// RFC 4654, 3.5: the CLR's whenever there is no other, and at least once per round.
const Sender::Echo& Sender::next_echo(Time now) const {
  if (!clr_valid_) return echo_;
  if (echo_.urgency == Urgency::kNone) return clr_echo_;
  if (clr_echoed_) return echo_;
  const bool last_of_round = now + rate_.time_for(config_.packet_size) >= round_ends();
  return last_of_round ? clr_echo_ : echo_;
}

// RFC 4654, 2.2.1.
std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer != 0) return 0;
  wire::TfmccData data;
  data.session = config_.session;
  data.seq = seq_;
  data.tx_time_us = wire::clock_us(now);
  data.fb_round = fb_round_;
  data.supp_rate = supp_rate_;
  data.max_rtt_us = wire::to_u32(max_rtt_);
  const Echo& echo = next_echo(now);
  data.echo_valid = echo.urgency != Urgency::kNone;
  if (data.echo_valid) {
    data.is_clr = clr_valid_ && echo.source == clr_;
    data.echo_source = echo.source;
    data.echo_time_us = echo.time_us + data.tx_time_us - wire::clock_us(echo.arrived);
  }
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  ++seq_;
  echo_.urgency = Urgency::kNone;
  clr_echoed_ = clr_echoed_ || data.is_clr;
  return length;
}

void Sender::trace_rate(Sink& sink) const {
  const TraceField fields[] = {
      {"x_Bps", rate_.bytes_per_second()}, {"x_r_Bps", clr_rate_.bytes_per_second()},
      {"clr", static_cast<double>(clr_)},  {"rtt_us", clr_rtt_.seconds() * 1e6},
      {"r_max_s", max_rtt_.seconds()},     {"slow_start", slow_start_ ? 1.0 : 0.0}};
  sink.trace("tfmcc.rate", fields);
}

void Sender::trace_clr(Reason reason, Sink& sink) const {
  const bool valid = reason == Reason::kNoClr || reason == Reason::kSlower;
  const TraceField fields[] = {
      {"clr", static_cast<double>(clr_)},      {"valid", valid ? 1.0 : 0.0},
      {"reason", static_cast<double>(reason)}, {"x_r_Bps", clr_rate_.bytes_per_second()},
      {"x_Bps", rate_.bytes_per_second()},     {"rtt_us", clr_rtt_.seconds() * 1e6}};
  sink.trace("tfmcc.clr", fields);
}

}  // namespace tiercast::tfmcc
