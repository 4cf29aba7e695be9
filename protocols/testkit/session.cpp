#include "protocols/testkit/session.h"

#include <algorithm>

namespace tiercast::testkit {
namespace {

constexpr Duration kSampleInterval = Duration::milliseconds(50);
constexpr Duration kControlDelay =
    Duration::milliseconds(10);  // time that a controller takes to act on an IGMP report

LinkConfig figure1_link() {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(6);
  link.delay = Duration::milliseconds(5);
  return link;
}

}  // namespace

class Session::Sampler : public Actor {
 public:
  Sampler(Simulator& simulator, Session& session) : Actor(simulator), session_(session) {
    set_call(now() + kSampleInterval);
  }

 private:
  void act() override {
    double cumulative = 0;
    for (unsigned k = 0; k < session_.options_.layers; ++k) {
      cumulative += session_.sender_->rate(static_cast<Rank>(k)).mbit_per_second();
      session_.cumulative_sum_[k] += cumulative;
      session_.subscribers_sum_[k] +=
          session_.tree_.subscribers(session_.options_.session, static_cast<Rank>(k));
    }
    for (std::size_t i = 0; i < session_.receivers(); ++i) {
      const int top = session_.top(i);
      if (top >= 0) ++session_.at_top_sum_[i][static_cast<std::size_t>(top)];
    }
    ++session_.samples_;
    set_call(now() + kSampleInterval);
  }

  Session& session_;
};

Session::Session(Simulator& simulator, Tree& tree, const SessionOptions& options)
    : simulator_(simulator), tree_(tree), options_(options) {
  const Scheme& scheme = find_scheme(options.scheme);
  SessionConfig config;
  config.session = options.session;
  config.layers = options.layers;
  config.seed = options.seed;
  config.parameters = Parameters(scheme.parameters);
  for (const std::string& assignment : options.set) config.parameters.set(assignment);
  std::vector<Member> members = options.others;
  for (const Tree::Node node : options.receivers) members.push_back({node, node});
  if (options.members_known) config.members = std::make_shared<const Members>(std::move(members));
  sender_ = std::make_unique<SenderHost>(simulator, tree, 0, scheme, config, options.jitter);
  for (const Tree::Node node : options.receivers) {
    config.self_id = node;
    config.seed = options.seed * 1000 + node;
    const auto lie = options.lies.find(node);
    config.lie = find_lie(scheme, lie == options.lies.end() ? "" : lie->second);
    receivers_.push_back(
        std::make_unique<ReceiverHost>(simulator, tree, node, scheme, config, options.jitter));
  }
}

Session::~Session() = default;

void Session::start() {
  sender_->start();
  // Receivers start within 100 ms of each other, in an order determined by the seed.
  Rng rng(options_.seed);
  for (const auto& receiver : receivers_) {
    ReceiverHost* host = receiver.get();
    simulator_.at(simulator_.now() + Duration::milliseconds(100) * rng.uniform(),
                  [host] { host->start(); });
  }
}

void Session::set_trace(const Trace& trace) {
  sender_->set_trace(trace);
  for (const auto& receiver : receivers_) receiver->set_trace(trace);
}

void Session::begin_measuring(std::vector<double> available_mbit) {
  available_mbit_ = std::move(available_mbit);
  measured_since_ = simulator_.now();
  counters_then_.clear();
  changes_then_ = 0;
  for (const auto& receiver : receivers_) {
    counters_then_.push_back(receiver->counters());
    changes_then_ += receiver->subscription_changes();
  }
  samples_ = 0;
  cumulative_sum_ = {};
  subscribers_sum_ = {};
  at_top_sum_.assign(receivers_.size(), {});
  sampler_ = std::make_unique<Sampler>(simulator_, *this);
}

Session::Result Session::result() const {
  Result result;
  const double samples = std::max<double>(1, static_cast<double>(samples_));
  for (unsigned k = 0; k < options_.layers; ++k) {
    result.cumulative_mbit[k] = cumulative_sum_[k] / samples;
    result.subscribers[k] = subscribers_sum_[k] / samples;
  }
  const double seconds = (simulator_.now() - measured_since_).seconds();
  double lost = 0;
  double received = 0;
  for (std::size_t i = 0; i < receivers_.size(); ++i) {
    const ReceiverCounters now = receivers_[i]->counters();
    const ReceiverCounters& then = counters_then_[i];
    const double mbit = static_cast<double>(now.bytes - then.bytes) * 8e-6 / seconds;
    result.received_mbit.push_back(mbit);
    result.efficiency += mbit / available_mbit_[i] / static_cast<double>(receivers_.size());
    lost += static_cast<double>(now.lost - then.lost);
    received += static_cast<double>(now.packets - then.packets);
    result.subscription_changes += receivers_[i]->subscription_changes();
    result.at_top.push_back(at_top_sum_[i]);
    for (double& share : result.at_top.back()) share /= samples;
  }
  result.subscription_changes -= changes_then_;
  result.loss = lost + received > 0 ? lost / (lost + received) : 0;
  return result;
}

Duration Session::worst_join_latency() const {
  Duration worst;
  for (const auto& receiver : receivers_) {
    for (const Duration latency : receiver->join_latencies()) worst = std::max(worst, latency);
  }
  return worst;
}

Figure1::Figure1(Simulator& simulator)
    : tree(simulator, Tree::balanced_parents(16), figure1_link(), kControlDelay) {
  constexpr std::pair<Tree::Node, double> kBottlenecks[] = {{3, 1},  {19, 2}, {4, 3},
                                                            {11, 3}, {25, 4}, {13, 5}};
  for (const auto& [node, mbit] : kBottlenecks) tree.set_rate(node, Rate::mbit_per_second(mbit));
}

std::vector<Tree::Node> Figure1::receivers() {
  std::vector<Tree::Node> nodes;
  for (Tree::Node node = 15; node <= 30; ++node) nodes.push_back(node);
  return nodes;
}

std::vector<double> Figure1::available_mbit() {
  return {1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 4, 6, 5, 5, 6, 6};
}

}  // namespace tiercast::testkit
