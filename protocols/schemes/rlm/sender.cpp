#include "protocols/schemes/rlm/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/schemes/rlm/messages.h"

namespace tiercast::rlm {

Sender::Sender(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), reflections_(settings_.max_reflections) {
  // Numbers start anywhere, so that a restarted sender does not look like the old one.
  Rng rng(config.seed);
  for (std::uint32_t& seq : seq_) seq = static_cast<std::uint32_t>(rng.next());
}

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now_ = std::max(now_, now);
  const auto wanted =
      static_cast<unsigned>(std::clamp(top_rank + 1, 0, static_cast<int>(config_.layers)));
  for (unsigned k = active_layers_; k < wanted; ++k) {
    sink.set_rate(static_cast<Rank>(k), settings_.rate[k]);
  }
  for (unsigned k = wanted; k < active_layers_; ++k) {
    sink.set_rate(static_cast<Rank>(k), Rate::zero());
  }
  active_layers_ = wanted;
}

std::size_t Sender::write_data(Time, Rank layer, std::span<std::byte> message) {
  if (layer >= active_layers_) return 0;
  wire::RlmData data;
  data.session = config_.session;
  data.rank = layer;
  data.seq = seq_[layer];
  const std::size_t length = wire::write(data, message);
  if (length > 0) ++seq_[layer];
  return length;
}

// Multicast is source-specific, so the sender repeats what a receiver says to the group.
void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now_ = std::max(now_, now);
  wire::RlmAnnouncement announcement;
  if (wire::parse(arrival.message, wire::Type::kFeedback, announcement) != wire::Error::kOk ||
      announcement.session != config_.session || announcement.rank >= config_.layers) {
    ++invalid_;
    return;
  }
  if (active_layers_ == 0 || !reflections_.take(now_)) return;
  announcement.type = wire::Type::kControl;
  std::array<std::byte, wire::RlmAnnouncement::kBytes> message;
  sink.send(Destination::group(0), {message.data(), wire::write(announcement, message)});
  const TraceField fields[] = {{"receiver", static_cast<double>(announcement.source)},
                               {"level", announcement.rank + 1.0}};
  sink.trace("rlm.announcement", fields);
}

}  // namespace tiercast::rlm
