// One session of a scheme on a Tree, with the papers' measures (SIM 4.1). The sender is at node 0;
// receivers are at the given nodes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocols/testkit/hosts.h"

namespace tiercast::testkit {

struct SessionOptions {
  std::string scheme = "sim";
  std::uint16_t session = 1;
  unsigned layers = 5;
  std::vector<Tree::Node> receivers;
  std::uint64_t seed = 1;
  Duration jitter;
  std::vector<std::string> set;  // "sim.delta=0.9", ...
  std::vector<Member> others;    // members besides: aggregators, receivers that come later
  bool members_known = true;     // to the sender; false: it accepts anybody's feedback
  std::map<Tree::Node, std::string> lies;  // of receivers (driver/lying_receiver.h)
};

class Session {
 public:
  Session(Simulator& simulator, Tree& tree, const SessionOptions& options);
  ~Session();

  void start();
  // The i-th receiver of the options.
  ReceiverHost& receiver(std::size_t i) { return *receivers_[i]; }
  SenderHost& sender() { return *sender_; }
  std::size_t receivers() const { return receivers_.size(); }
  int top(std::size_t i) const { return receivers_[i]->counters().top; }
  void set_trace(const Trace& trace);

  // Means over the interval from begin_measuring() to result(), sampled every 50 ms.
  struct Result {
    std::array<double, kMaxLayers> cumulative_mbit{};  // sending rate of layers 0 .. k
    std::array<double, kMaxLayers> subscribers{};      // mean number of subscribers of each layer
    std::vector<double> received_mbit;                 // per receiver
    std::vector<std::array<double, kMaxLayers>>
        at_top;             // per receiver: share of time with each top layer
    double efficiency = 0;  // mean of received / available rate
    double loss = 0;        // lost / (lost + received) over all receivers
    std::uint64_t subscription_changes = 0;
  };
  // `available_mbit`: for each receiver, a_i of SIM 4.1.
  void begin_measuring(std::vector<double> available_mbit);
  Result result() const;

  Duration worst_join_latency() const;

 private:
  class Sampler;

  Simulator& simulator_;
  Tree& tree_;
  SessionOptions options_;
  std::unique_ptr<SenderHost> sender_;
  std::vector<std::unique_ptr<ReceiverHost>> receivers_;

  std::vector<double> available_mbit_;
  Time measured_since_;
  std::vector<ReceiverCounters> counters_then_;
  std::uint64_t changes_then_ = 0;
  std::uint64_t samples_ = 0;
  std::array<double, kMaxLayers> cumulative_sum_{};
  std::array<double, kMaxLayers> subscribers_sum_{};
  std::vector<std::array<double, kMaxLayers>> at_top_sum_;
  std::unique_ptr<Sampler> sampler_;
};

// The topology of SIM 4.2.1 (figure 1; S1 in PROTOCOLS 3.7): 16 receivers; links of 1, 2, 3, 4, 5
// and 6 Mbit/s, each with 5 ms and 50 packets.
struct Figure1 {
  explicit Figure1(Simulator& simulator);
  Tree tree;
  static std::vector<Tree::Node> receivers();   // 15 .. 30
  static std::vector<double> available_mbit();  // per receiver
};

}  // namespace tiercast::testkit
