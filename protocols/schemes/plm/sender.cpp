#include "protocols/schemes/plm/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/schemes/plm/messages.h"

namespace tiercast::plm {

Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      interval_(settings_.layer_rate.time_for(2.0 * config.packet_size)) {
  // Numbers start anywhere, so that a restarted sender does not look like the old one.
  Rng rng(config.seed);
  for (Layer& layer : layers_) layer.seq = static_cast<std::uint32_t>(rng.next());
}

void Sender::membership(Time now, int top_rank, Sink&) {
  const auto wanted =
      static_cast<unsigned>(std::clamp(top_rank + 1, 0, static_cast<int>(config_.layers)));
  for (unsigned k = active_layers_; k < wanted; ++k) {
    // Keep the pairs of different layers apart: only other flows should come between the two
    // packets of a pair.
    layers_[k].next_pair = now + interval_ * (static_cast<double>(k) / config_.layers);
    layers_[k].pair = 1;
  }
  for (unsigned k = wanted; k < active_layers_; ++k) layers_[k].next_pair = Time::never();
  active_layers_ = wanted;
}

Time Sender::next_timer() const {
  Time next = Time::never();
  for (const Layer& layer : layers_) next = std::min(next, layer.next_pair);
  return next;
}

void Sender::timer(Time now, Sink& sink) {
  for (unsigned k = 0; k < active_layers_; ++k) {
    Layer& layer = layers_[k];
    if (now < layer.next_pair) continue;
    sink.release(static_cast<Rank>(k), 2);
    // Pairs missed during a stall are not made up for.
    layer.next_pair = std::max(layer.next_pair + interval_, now);
    if (now - layer.next_pair >= Duration::zero()) layer.next_pair = now + interval_;
  }
}

std::size_t Sender::write_data(Time, Rank layer, std::span<std::byte> message) {
  if (layer >= active_layers_) return 0;
  Layer& sent = layers_[layer];
  wire::PlmData data;
  data.session = config_.session;
  data.rank = layer;
  data.pair = sent.pair;
  data.seq = sent.seq;
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  ++sent.seq;
  sent.pair = static_cast<std::uint8_t>(3 - sent.pair);
  return length;
}

}  // namespace tiercast::plm
