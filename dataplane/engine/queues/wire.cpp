#include "dataplane/engine/queues/wire.h"

#include "dataplane/engine/packet/random.h"

namespace tiercast::engine {

std::string Wire::wrong(const WireConfig& config) {
  for (const auto& [name, value] :
       {std::pair("loss.to_bad", config.loss.to_bad),
        std::pair("loss.to_good", config.loss.to_good),
        std::pair("loss.in_good", config.loss.in_good),
        std::pair("loss.in_bad", config.loss.in_bad), std::pair("duplicate", config.duplicate),
        std::pair("reorder", config.reorder)}) {
    if (!(value >= 0 && value <= 1)) {  // and no NaN
      return name + (" " + std::to_string(value)) + ", valid: 0 to 1";
    }
  }
  for (const auto& [name, value] : {std::pair("jitter", config.jitter_ns),
                                    std::pair("reorder delay", config.reorder_delay_ns)}) {
    if (value < 0 || value > WireConfig::kMaxDelayNs) {
      return name + (" " + std::to_string(value)) + " ns, valid: 0 to 60 s";
    }
  }
  return {};
}

void Wire::set(const WireConfig& config, std::uint64_t seed) {
  if (impairments_ == nullptr) {
    if (config == WireConfig()) return;
    impairments_ = std::make_unique<Impairments>();
    impairments_->random = seed;
  }
  impairments_->config = config;
  // Without a way into the bad state there may be none out of it.
  if (config.loss.to_bad == 0) impairments_->bad = false;
}

// The state that the packet finds decides on it, and then changes, as in netem's gemodel.
bool Wire::loses(Impairments& impairments) {
  const LossModel& loss = impairments.config.loss;
  if (loss == LossModel()) return false;
  const double chance = impairments.bad ? loss.in_bad : loss.in_good;
  const double change = impairments.bad ? loss.to_good : loss.to_bad;
  if (next_uniform(impairments.random) < change) impairments.bad = !impairments.bad;
  return next_uniform(impairments.random) < chance;
}

Wire::Fate Wire::impair(Packet* packet, std::int64_t due_ns, PacketPool& pool) {
  Impairments& impairments = *impairments_;
  const WireConfig& config = impairments.config;
  if (!config.up || loses(impairments)) return Fate::kLost;
  const auto happens = [&](double chance) {
    return chance > 0 && next_uniform(impairments.random) < chance;
  };
  if (config.jitter_ns > 0) {
    due_ns += static_cast<std::int64_t>(next_uniform(impairments.random) *
                                        static_cast<double>(config.jitter_ns));
  }
  const bool held = happens(config.reorder);
  if (held) due_ns += config.reorder_delay_ns;
  const bool twice = happens(config.duplicate);
  propagate(packet, due_ns, held);
  if (!twice) return Fate::kSent;
  Packet* copy = pool.take();
  copy->buffer = pool.share(packet->buffer);
  copy->ingress_port = packet->ingress_port;
  copy->label = packet->label;
  propagate(copy, due_ns, held);
  return Fate::kSentTwice;
}

void Wire::propagate(Packet* packet, std::int64_t due_ns, bool held) {
  if (!held) return put(packet, due_ns);
  packet->time_ns = impairments_->last_held_ns = std::max(impairments_->last_held_ns, due_ns);
  impairments_->held.push(packet);
}

Packet* Wire::pop_any() {
  if (!frames_.empty()) return frames_.pop();
  if (next_held() != kNever) return impairments_->held.pop();
  last_due_ns_ = 0;
  if (is_impaired()) impairments_->last_held_ns = 0;
  return nullptr;
}

std::uint32_t Wire::count() const {
  std::uint32_t frames = 0;
  for (const Packet* one = frames_.head(); one != nullptr; one = one->next) ++frames;
  if (!is_impaired()) return frames;
  for (const Packet* one = impairments_->held.head(); one != nullptr; one = one->next) ++frames;
  return frames;
}

}  // namespace tiercast::engine
