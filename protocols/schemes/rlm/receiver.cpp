#include "protocols/schemes/rlm/receiver.h"

#include <algorithm>
#include <cmath>

namespace tiercast::rlm {
namespace {

constexpr Duration kRateWindow = Duration::seconds(1);
constexpr double kMinDetect = 0.1;  // s; a timer that ends at once would never allow anything again
constexpr double kMaxDetect = 60;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed),
      reception_(kRateWindow),
      t_detect_(settings_.detect_init),
      t_detect_var_(settings_.detect_var_init) {
  for (Layer& layer : layers_) layer.t_join = settings_.join_init;
}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  add_layer(now, sink);
  set_join_timer(now);
  set_detect_timer(now, 1.5);
}

void Receiver::stop(Time, Sink& sink) {
  join_at_ = detect_at_ = Time::never();
  reception_.subscribe(-1, sink);
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::RlmData data;
  wire::RlmAnnouncement announcement;
  if (wire::parse(arrival.message, data) == wire::Error::kOk && data.session == config_.session &&
      data.rank < config_.layers) {
    if (data.rank > reception_.top()) return;  // it may still arrive after a leave
    const GapDetector::Packet packet = reception_.receive(now, data.rank, data.seq, arrival);
    if (packet.order == GapDetector::Order::kStray) return;
    const bool marked = arrival.ce && settings_.ecn;
    lost_ += packet.lost + (marked ? 1 : 0);
    delivers_[data.rank] = true;
    if (packet.lost > 0 || marked) on_loss(now, sink);
  } else if (wire::parse(arrival.message, wire::Type::kControl, announcement) == wire::Error::kOk &&
             announcement.session == config_.session && announcement.rank < config_.layers) {
    receive_announcement(now, announcement);
  } else {
    reception_.refuse();
  }
}

// Shared learning: if an experiment above this level does harm, this receiver treats it as its own.
void Receiver::receive_announcement(Time now, const wire::RlmAnnouncement& announcement) {
  if (announcement.source == config_.self_id || !reception_.joined()) return;
  Layer& layer = layers_[announcement.rank];
  layer.joined_at = now;
  if (announcement.rank > reception_.top()) layer.pending_at = now;
}

// An action this recent may still be the cause of what is seen now.
bool Receiver::recent(Time then, Time now) const {
  return !then.is_never() && then + Duration::seconds(t_detect_ + 2 * t_detect_var_) > now;
}

int Receiver::highest_pending(Time now) const {
  for (int rank = static_cast<int>(config_.layers) - 1; rank >= 0; --rank) {
    if (recent(layers_[static_cast<std::size_t>(rank)].pending_at, now)) return rank;
  }
  return -1;
}

bool Receiver::inferior_pending(Time now) const {
  for (int rank = 0; rank <= reception_.top(); ++rank) {
    if (recent(layers_[static_cast<std::size_t>(rank)].joined_at, now)) return true;
  }
  return false;
}

void Receiver::on_loss(Time now, Sink& sink) {
  switch (state_) {
    case State::kHysteresis:
    case State::kDrop: return;
    case State::kMeasurement: {
      const std::uint64_t packets = reception_.packets() - packets_before_;
      const std::uint64_t lost = lost_ - lost_before_;
      if (packets < settings_.measured_packets ||
          static_cast<double>(lost) <=
              settings_.loss_threshold * static_cast<double>(packets + lost)) {
        return;
      }
      drop_layer(now, sink);
      enter(State::kDrop, now, sink);
      return;
    }
    case State::kSteady: break;
  }
  const int pending = highest_pending(now);
  if (pending >= 0) {
    fail(now, pending, sink);
    if (pending == reception_.top()) {
      drop_layer(now, sink);
      enter(State::kDrop, now, sink);
      return;
    }
    // Others tried what was to be this receiver's next experiment, so there is no need to repeat it
    // soon.
    if (pending == reception_.top() + 1) set_join_timer(now);
  }
  enter(recent(top().added_at, now) ? State::kMeasurement : State::kHysteresis, now, sink);
}

// The experiment with layer `rank` did harm. It is tried less often from now on, and layers above
// no more often than this one.
void Receiver::fail(Time now, int rank, Sink& sink) {
  Layer& failed = layers_[static_cast<std::size_t>(rank)];
  failed.t_join = std::min(failed.t_join * settings_.backoff, settings_.join_max);
  for (unsigned above = static_cast<unsigned>(rank) + 1; above < config_.layers; ++above) {
    layers_[above].t_join = std::max(layers_[above].t_join, failed.t_join);
  }
  const bool own = rank == reception_.top();
  if (own) {
    const double taken = (now - failed.pending_at).seconds();
    const double deviation = std::abs(taken - t_detect_);
    t_detect_ += settings_.detect_gain * (taken - t_detect_);
    t_detect_var_ += settings_.detect_gain * (deviation - t_detect_var_);
    t_detect_ = std::clamp(t_detect_, kMinDetect, kMaxDetect);
  }
  const TraceField fields[] = {{"level", rank + 1.0},
                               {"own", own ? 1.0 : 0.0},
                               {"t_join_s", failed.t_join},
                               {"t_detect_s", t_detect_},
                               {"t_detect_var_s", t_detect_var_}};
  sink.trace("rlm.failure", fields);
}

void Receiver::enter(State state, Time now, Sink& sink) {
  state_ = state;
  if (state == State::kMeasurement) {
    packets_before_ = reception_.packets();
    lost_before_ = lost_;
    set_detect_timer(now, level() / 2 + 1.5);
  } else {
    set_detect_timer(now, 1.5);
  }
  const TraceField fields[] = {{"state", static_cast<double>(state)},
                               {"level", level()},
                               {"t_detect_s", t_detect_},
                               {"t_detect_var_s", t_detect_var_}};
  sink.trace("rlm.state", fields);
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now >= detect_at_) on_detect_timer(now, sink);
  if (now >= join_at_) on_join_timer(now, sink);
}

void Receiver::on_detect_timer(Time now, Sink& sink) {
  switch (state_) {
    case State::kHysteresis: enter(State::kMeasurement, now, sink); return;
    case State::kMeasurement:
    case State::kDrop: enter(State::kSteady, now, sink); return;
    case State::kSteady:
      if (reception_.top() >= 0) {
        top().t_join = std::max(top().t_join * settings_.relax, settings_.join_init);
      }
      set_detect_timer(now, 1.5);
      return;
  }
}

void Receiver::on_join_timer(Time now, Sink& sink) {
  if (state_ == State::kSteady && !inferior_pending(now) && top_delivers(now)) {
    add_layer(now, sink);
    top().joined_at = top().pending_at = now;
    wire::RlmAnnouncement announcement;
    announcement.session = config_.session;
    announcement.rank = static_cast<std::uint8_t>(reception_.top());
    announcement.source = config_.self_id;
    std::array<std::byte, wire::RlmAnnouncement::kBytes> message;
    sink.send(Destination::sender(), {message.data(), wire::write(announcement, message)});
    const TraceField fields[] = {{"level", level()}, {"t_join_s", top().t_join}};
    sink.trace("rlm.join", fields);
  }
  set_join_timer(now);
}

// If a layer takes long to deliver, detection takes longer than was estimated.
bool Receiver::top_delivers(Time now) {
  if (!reception_.joined() || delivers_[static_cast<std::size_t>(reception_.top())]) return true;
  const double waited = (now - top().added_at).seconds();
  if (waited > t_detect_) t_detect_ = std::clamp(1.2 * waited, kMinDetect, kMaxDetect);
  return false;
}

void Receiver::add_layer(Time now, Sink& sink) {
  reception_.subscribe(reception_.top() + 1, sink);
  top().added_at = now;
  delivers_[static_cast<std::size_t>(reception_.top())] = false;
}

void Receiver::drop_layer(Time now, Sink& sink) {
  if (reception_.top() < (settings_.leave_base ? 0 : 1)) return;
  reception_.subscribe(reception_.top() - 1, sink);
  if (join_at_.is_never()) set_join_timer(now);  // the last layer was joined, so there was no timer
}

// T_J / 2 plus a time from an exponential distribution with mean T_J, cut off at 4 T_J.
void Receiver::set_join_timer(Time now) {
  const auto next = static_cast<unsigned>(reception_.top() + 1);
  if (next >= config_.layers) {
    join_at_ = Time::never();
    return;
  }
  const double t_join = layers_[next].t_join;
  const double cut = -std::expm1(-4.0);
  join_at_ = now + Duration::seconds(t_join / 2 - t_join * std::log1p(-rng_.uniform() * cut));
}

void Receiver::set_detect_timer(Time now, double deviations) {
  detect_at_ = now + Duration::seconds(t_detect_ + deviations * t_detect_var_);
}

}  // namespace tiercast::rlm
