// Runs an experiment's network, session and TCP flows in the testkit: JSON in, what each receiver
// and each flow got over its window out. tests/mininet/in_testkit.py drives it.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "protocols/testkit/session.h"
#include "protocols/testkit/tcp.h"

namespace tiercast::testkit {
namespace {

using Json = nlohmann::json;

// RED on arrival, away from the root.
RedConfig red_config(const Json& json, std::uint64_t seed) {
  RedConfig red;
  red.weight = json.at("weight");
  red.min_threshold = json.at("min_th");
  red.max_threshold = json.at("max_th");
  red.max_probability = json.at("max_p");
  red.seed = seed;
  return red;
}

LinkConfig link_config(const Json& json, bool marking) {
  LinkConfig link;
  link.rate = Rate::bits_per_second(json.at("rate_bps"));
  link.delay = Duration::nanoseconds(json.at("delay_ns"));
  link.queue = {json.at("queue_packets"), json.at("queue_bytes")};
  link.marking = marking;
  return link;
}

Json run(const Json& json) {
  Simulator simulator;
  const std::vector<Tree::Node> parents = json.at("parents");
  const bool marking = json.at("marking");
  // The time that the controller takes from a report to changed tables.
  Tree tree(simulator, parents, LinkConfig{}, Duration::nanoseconds(json.at("control_delay_ns")));
  for (Tree::Node node = 1; node < tree.size(); ++node) {
    LinkConfig link = link_config(json.at("links").at(node - 1), marking);
    if (const Json& red = json.at("red"); !red.is_null()) {
      link.red = red_config(red, json.at("seed").get<std::uint64_t>() * 1000 + node);
    }
    tree.configure(node, link);
  }
  SessionOptions options;
  options.scheme = json.at("scheme");
  options.layers = json.at("layers");
  options.receivers = json.at("receivers").get<std::vector<Tree::Node>>();
  options.seed = json.at("seed");
  options.set = json.at("set").get<std::vector<std::string>>();
  Session session(simulator, tree, options);
  session.start();
  std::vector<std::unique_ptr<TcpFlow>> flows;
  for (const Json& flow : json.at("tcp")) {
    const auto number = static_cast<std::uint16_t>(1000 + flows.size());
    flows.push_back(std::make_unique<TcpFlow>(simulator, tree, flow.at(0), flow.at(1), number));
    flows.back()->start();
  }
  const double from = json.at("window_s").at(0), until = json.at("window_s").at(1);
  simulator.run_for(Duration::seconds(from));
  std::vector<ReceiverCounters> counters_then;
  for (std::size_t i = 0; i < session.receivers(); ++i) {
    counters_then.push_back(session.receiver(i).counters());
  }
  std::vector<std::uint64_t> then;
  for (const auto& flow : flows) then.push_back(flow->delivered_packets());
  simulator.run_for(Duration::seconds(until - from));
  Json tcp = Json::array();
  for (std::size_t i = 0; i < flows.size(); ++i) {
    tcp.push_back(static_cast<double>(flows[i]->delivered_packets() - then[i]) * 8 *
                  TcpConfig{}.packet_size / (until - from));
  }
  Json received = Json::array();
  Json packets = Json::array();
  Json lost = Json::array();
  for (std::size_t i = 0; i < session.receivers(); ++i) {
    const ReceiverCounters now = session.receiver(i).counters();
    received.push_back(static_cast<double>(now.bytes - counters_then[i].bytes) * 8 /
                       (until - from));
    packets.push_back(now.packets - counters_then[i].packets);
    lost.push_back(now.lost - counters_then[i].lost);
  }
  return {{"received_bps", received}, {"packets", packets}, {"lost", lost}, {"tcp_bps", tcp}};
}

}  // namespace
}  // namespace tiercast::testkit

int main() {
  try {
    std::cout << tiercast::testkit::run(nlohmann::json::parse(std::cin)) << "\n";
  } catch (const std::exception& error) {
    std::cerr << "testkit_run: " << error.what() << "\n";
    return 2;
  }
}
