// The topology of RLA's simulations (RLA 5, figure 6; PROTOCOLS 5.7): a tree of four levels with 27
// leaves, and a TCP flow to each leaf beside the multicast session.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/schemes/rla/sender.h"
#include "protocols/testkit/session.h"
#include "protocols/testkit/tcp.h"

namespace tiercast::testkit {

struct Figure6Options {
  int bottleneck_level = 1;  // 1 .. 4: all links of this level are bottlenecks
  bool red = true;
  unsigned sessions = 1;
  bool tcp = true;
  // The rate of the bottlenecks, in packets of 1000 bytes per second for each flow on them.
  double share = 100;
  std::uint64_t seed = 1;
  std::vector<std::string> set;
  std::string scheme = "rla";
};

class Figure6 {
 public:
  static constexpr Tree::Node kFirstLeaf = 14;
  static constexpr unsigned kLeaves = 27;

  static std::vector<Tree::Node> parents() {
    std::vector<Tree::Node> parents{0, 0};
    for (Tree::Node i = 0; i < 3; ++i) parents.push_back(1);
    for (Tree::Node i = 0; i < 9; ++i) parents.push_back(2 + i / 3);
    for (Tree::Node i = 0; i < kLeaves; ++i) parents.push_back(5 + i / 3);
    return parents;
  }
  static int level(Tree::Node node) { return node < 2 ? 1 : node < 5 ? 2 : node < 14 ? 3 : 4; }
  static double tcps_beyond(int level) {
    return level == 1 ? 27 : level == 2 ? 9 : level == 3 ? 3 : 1;
  }

  explicit Figure6(const Figure6Options& options)
      : tree(simulator, parents(), LinkConfig{}, Duration::milliseconds(1)) {
    for (Tree::Node node = 1; node < tree.size(); ++node) {
      LinkConfig link;
      link.marking = false;
      link.delay = Duration::milliseconds(level(node) == 4 ? 100 : 5);
      link.queue = {20, 0};
      const double flows =
          (options.tcp ? tcps_beyond(options.bottleneck_level) : 0) + options.sessions;
      link.rate = level(node) == options.bottleneck_level
                      ? Rate::bytes_per_second(options.share * 1000 * flows)
                      : Rate::mbit_per_second(100);
      if (options.red) {
        link.red = RedConfig{};
        link.red->seed = options.seed * 100 + node;
      }
      tree.configure(node, link);
      // Acknowledgements meet no queue, as in the paper. Otherwise 27 at the same instant would
      // overflow 20 packets.
      tree.up(node).set_rate(Rate::zero());
    }
    std::vector<Tree::Node> leaves;
    for (Tree::Node i = 0; i < kLeaves; ++i) leaves.push_back(kFirstLeaf + i);
    for (unsigned s = 0; s < options.sessions; ++s) {
      SessionOptions session;
      session.scheme = options.scheme;
      session.session = static_cast<std::uint16_t>(1 + s);
      session.layers = 1;
      session.receivers = leaves;
      session.seed = options.seed * 10 + s;
      session.jitter = Duration::milliseconds(1);
      session.set = options.set;
      sessions.push_back(std::make_unique<Session>(simulator, tree, session));
      sessions.back()->sender().set_trace(
          [this, s](Time, Tree::Node, std::string_view kind, std::span<const TraceField> fields) {
            if (kind == "rla.window") note_window(s, fields);
          });
    }
    Rng rng(options.seed);
    for (unsigned i = 0; options.tcp && i < kLeaves; ++i) {
      tcps.push_back(std::make_unique<TcpFlow>(simulator, tree, 0, leaves[i],
                                               static_cast<std::uint16_t>(1000 + i)));
      TcpFlow* flow = tcps.back().get();
      simulator.at(simulator.now() + Duration::seconds(rng.uniform()), [flow] { flow->start(); });
    }
    for (const auto& session : sessions) session->start();
  }

  const rla::Sender& sender(unsigned session = 0) {
    return dynamic_cast<const rla::Sender&>(sessions[session]->sender().core());
  }

  struct Result {
    double rate = 0;  // packets/s that all receivers got
    double cwnd = 0;
    double rtt = 0;  // s, mean time until all have acknowledged a packet that was sent once
    double signals = 0;
    double cuts = 0;
    double forced = 0;
    double timeouts = 0;
    double worst_tcp = 0;  // packets/s
    double best_tcp = 0;
    double mean_tcp = 0;
    double tcp_cuts = 0;  // per flow
  };
  // Measures over the next `seconds`.
  std::vector<Result> measure(double seconds) {
    std::vector<Result> results(sessions.size());
    std::vector<std::uint64_t> tcp_then, cuts_then;
    for (const auto& tcp : tcps) {
      tcp_then.push_back(tcp->delivered_packets());
      cuts_then.push_back(tcp->window_cuts());
    }
    const auto note = [&](double sign) {
      for (unsigned s = 0; s < sessions.size(); ++s) {
        const rla::Sender& core = sender(s);
        Result& r = results[s];
        r.rate += sign * static_cast<double>(core.counts().acknowledged) / seconds;
        r.signals += sign * static_cast<double>(core.listening().signals());
        r.forced += sign * static_cast<double>(core.listening().forced_cuts());
        r.cuts += sign * static_cast<double>(core.listening().forced_cuts() +
                                             core.listening().randomized_cuts());
        r.timeouts += sign * static_cast<double>(core.counts().timeouts);
      }
    };
    note(-1);
    round_trips.assign(sessions.size(), {});
    constexpr double kStep = 0.1;
    const int steps = static_cast<int>(seconds / kStep);
    for (int i = 0; i < steps; ++i) {
      simulator.run_for(Duration::seconds(kStep));
      for (unsigned s = 0; s < sessions.size(); ++s) {
        results[s].cwnd += sender(s).listening().cwnd() / steps;
      }
    }
    note(+1);
    for (unsigned s = 0; s < sessions.size(); ++s) {
      results[s].rtt = round_trips[s].sum / static_cast<double>(round_trips[s].count);
    }
    for (Result& r : results) {
      for (std::size_t i = 0; i < tcps.size(); ++i) {
        const double rate =
            static_cast<double>(tcps[i]->delivered_packets() - tcp_then[i]) / seconds;
        r.worst_tcp = i == 0 ? rate : std::min(r.worst_tcp, rate);
        r.best_tcp = std::max(r.best_tcp, rate);
        r.mean_tcp += rate / static_cast<double>(tcps.size());
        r.tcp_cuts += static_cast<double>(tcps[i]->window_cuts() - cuts_then[i]) /
                      static_cast<double>(tcps.size());
      }
    }
    return results;
  }

  Simulator simulator;
  Tree tree;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::unique_ptr<TcpFlow>> tcps;

 private:
  struct RoundTrips {
    double sum = 0;  // s
    std::uint64_t count = 0;
  };

  // As the lab's measure `rtt` takes it: the mean over the sender's rows.
  void note_window(unsigned session, std::span<const TraceField> fields) {
    for (const TraceField& field : fields) {
      if (session >= round_trips.size() || field.name != "rtt_us" || field.value <= 0) continue;
      round_trips[session].sum += field.value / 1e6;
      ++round_trips[session].count;
    }
  }

  std::vector<RoundTrips> round_trips;  // of the sessions, while they are measured
};

}  // namespace tiercast::testkit
