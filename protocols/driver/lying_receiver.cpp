#include "protocols/driver/lying_receiver.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "protocols/wire/wire.h"

namespace tiercast {
namespace {

constexpr Lie kAlwaysCongested{"always_congested",
                               "hears each packet as marked, and each tenth not at all"};
constexpr Lie kInflatedSubscription{"inflated_subscription",
                                    "subscribes to all layers, all the time"};
constexpr unsigned kKept = 10;  // of so many data packets one is kept from the core

class LyingReceiver final : public ReceiverCore, private Sink {
 public:
  LyingReceiver(const Scheme& scheme, const SessionConfig& config, const Lie& lie,
                std::unique_ptr<ReceiverCore> core)
      : core_(std::move(core)),
        lie_(lie),
        congested_(&lie == &kAlwaysCongested),
        inflated_(&lie == &kInflatedSubscription),
        scheme_(scheme.id),
        session_(config.session),
        layers_(static_cast<int>(config.layers)) {}

  void start(Time now, Sink& sink) override {
    sink_ = &sink;
    core_->start(now, *this);
    if (inflated_) subscribe(layers_ - 1);
  }
  void receive(Time now, const Arrival& arrival, Sink& sink) override {
    sink_ = &sink;
    Arrival told = arrival;
    if (is_data(arrival.message)) {
      ++packets_;
      bytes_ += arrival.ip_length;
      marked_ += arrival.ce ? 1 : 0;
      if (congested_ && packets_ % kKept == 0) return;
      told.ce = told.ce || congested_;
    }
    core_->receive(now, told, *this);
  }
  void timer(Time now, Sink& sink) override {
    sink_ = &sink;
    core_->timer(now, *this);
  }
  Time next_timer() const override { return core_->next_timer(); }
  void stop(Time now, Sink& sink) override {
    sink_ = &sink;
    core_->stop(now, *this);
    if (inflated_) subscribe(-1);
  }

  // What arrives here, not what the core hears of.
  ReceiverCounters counters() const override {
    ReceiverCounters counters = core_->counters();
    counters.packets = packets_;
    counters.bytes = bytes_;
    counters.marked = marked_;
    if (inflated_) counters.top = top_;
    return counters;
  }

 private:
  bool is_data(std::span<const std::byte> message) const {
    wire::CommonHeader header;
    return wire::parse_common(message, header) == wire::Error::kOk &&
           header.type == wire::Type::kData && header.session == session_ &&
           static_cast<std::uint8_t>(header.scheme) == scheme_;
  }

  void subscribe(int top) {
    while (top_ < top) sink_->join(static_cast<Rank>(++top_));
    while (top_ > top) sink_->leave(static_cast<Rank>(top_--));
    const TraceField fields[] = {{"top", static_cast<double>(top_)}};
    sink_->trace("subscription", fields);
  }

  void send(Destination to, std::span<const std::byte> message) override {
    if (lie_.retell == nullptr || message.size() > Lie::kMaxBytes) {
      sink_->send(to, message);
      return;
    }
    const std::size_t length = lie_.retell(message, said_);
    if (length > 0) sink_->send(to, std::span(said_).first(length));
  }
  void join(Rank rank) override {
    if (!inflated_) sink_->join(rank);
  }
  void leave(Rank rank) override {
    if (!inflated_) sink_->leave(rank);
  }
  void trace(std::string_view kind, std::span<const TraceField> fields) override {
    if (!inflated_ || kind != "subscription") sink_->trace(kind, fields);
  }
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override {
    sink_->deliver(offset, bytes);
  }
  void set_rate(Rank layer, Rate rate) override { sink_->set_rate(layer, rate); }
  void release(Rank layer, std::uint32_t packets) override { sink_->release(layer, packets); }

  const std::unique_ptr<ReceiverCore> core_;
  const Lie& lie_;
  const bool congested_;
  const bool inflated_;
  const std::uint8_t scheme_;
  const std::uint16_t session_;
  const int layers_;
  Sink* sink_ = nullptr;  // of the call that is in progress
  int top_ = -1;          // of an inflated subscription
  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t marked_ = 0;
  std::array<std::byte, Lie::kMaxBytes> said_{};
};

}  // namespace

std::vector<const Lie*> lies_of(const Scheme& scheme) {
  std::vector<const Lie*> lies{&kAlwaysCongested};
  for (const Lie& own : scheme.lies) lies.push_back(&own);
  if (scheme.layered) lies.push_back(&kInflatedSubscription);
  return lies;
}

const Lie* find_lie(const Scheme& scheme, std::string_view name) {
  if (name.empty()) return nullptr;
  std::string valid;
  for (const Lie* lie : lies_of(scheme)) {
    if (lie->name == name) return lie;
    valid += (valid.empty() ? "" : ", ") + std::string(lie->name);
  }
  throw ConfigError("lie '" + std::string(name) + "' means nothing in " + std::string(scheme.name) +
                    "; valid: " + valid);
}

std::unique_ptr<ReceiverCore> make_receiver(const Scheme& scheme, const SessionConfig& config) {
  auto core = scheme.make_receiver(config);
  if (config.lie == nullptr) return core;
  return std::make_unique<LyingReceiver>(scheme, config, *config.lie, std::move(core));
}

}  // namespace tiercast
