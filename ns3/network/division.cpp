// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/division.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

// Switches behind a shorter link share a process: shorter windows would hold too little work.
constexpr std::int64_t kShortestWindowNs = 100'000;

constexpr std::uint32_t kNoProcess = ~std::uint32_t{0};

// A direction of a link between switches, with its shortest delay during the run.
struct Direction {
  std::uint32_t from, to;  // switches
  std::int64_t delay_ns;
};

class Network {
 public:
  explicit Network(const v1::Scenario& scenario) : scenario_(scenario) {
    for (const v1::SimulatedSwitch& one : scenario.switches()) {
      numbers_.emplace(one.name(), static_cast<std::uint32_t>(numbers_.size()));
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> changed;  // switch, port
    for (const v1::PortChange& change : scenario.changes()) {
      if (!change.has_delay_ns()) continue;
      const auto [at, is_new] =
          changed.emplace(std::pair(number(change.switch_()), change.port()), change.delay_ns());
      if (!is_new) at->second = std::min(at->second, change.delay_ns());
    }
    for (const v1::SimulatedSwitch& one : scenario.switches()) {
      const std::uint32_t from = number(one.name());
      for (const v1::SimulatedPort& port : one.ports()) {
        if (port.peer_port() == 0) continue;  // a host's
        std::int64_t delay = port.delay_ns();
        const auto later = changed.find({from, port.port()});
        if (later != changed.end()) delay = std::min(delay, later->second);
        directions_.push_back({from, number(port.peer()), delay});
      }
    }
  }

  std::uint32_t switches() const { return static_cast<std::uint32_t>(numbers_.size()); }
  const std::vector<Direction>& directions() const { return directions_; }
  std::uint32_t number(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw ConfigError("scenario: no switch '" + name + "'");
    return found->second;
  }
  std::vector<std::uint32_t> with_tcp() const {
    std::map<std::string, std::uint32_t> hosts;
    for (const v1::SimulatedHost& host : scenario_.hosts()) {
      hosts.emplace(host.name(), number(host.switch_()));
    }
    std::vector<std::uint32_t> result;
    for (const v1::TcpFlow& flow : scenario_.tcp()) {
      for (const std::string& host : {flow.source(), flow.destination()}) {
        const auto found = hosts.find(host);
        if (found == hosts.end()) throw ConfigError("scenario: no host '" + host + "'");
        result.push_back(found->second);
      }
    }
    return result;
  }

 private:
  const v1::Scenario& scenario_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<Direction> directions_;
};

// Sets of switches that must be together.
class Groups {
 public:
  explicit Groups(std::uint32_t switches) : first_(switches) {
    std::iota(first_.begin(), first_.end(), 0);
  }
  std::uint32_t of(std::uint32_t one) {
    while (first_[one] != one) one = first_[one] = first_[first_[one]];
    return one;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = of(a);
    b = of(b);
    first_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> first_;
};

// The processes in an order in which neighbours are close to one another: depth first.
std::vector<std::uint32_t> neighbours_together(const std::vector<std::vector<std::uint32_t>>& to) {
  std::vector<std::uint32_t> order, waiting;
  std::vector<bool> seen(to.size());
  for (std::uint32_t start = 0; start < to.size(); ++start) {
    waiting.push_back(start);
    while (!waiting.empty()) {
      const std::uint32_t one = waiting.back();
      waiting.pop_back();
      if (seen[one]) continue;
      seen[one] = true;
      order.push_back(one);
      waiting.insert(waiting.end(), to[one].rbegin(), to[one].rend());
    }
  }
  return order;
}

}  // namespace

Division divide(const v1::Scenario& scenario, std::uint32_t threads) {
  const Network network(scenario);
  Groups groups(network.switches());
  for (const Direction& one : network.directions()) {
    if (one.delay_ns < kShortestWindowNs) groups.join(one.from, one.to);
  }
  const std::vector<std::uint32_t> with_tcp = network.with_tcp();
  for (const std::uint32_t one : with_tcp) groups.join(with_tcp.front(), one);

  Division result{{}, {}, scenario.control_delay_ns()};
  std::vector<std::uint32_t> process_of_group(network.switches(), kNoProcess);
  std::vector<std::uint64_t> ports;  // of each process
  for (std::uint32_t one = 0; one < network.switches(); ++one) {
    std::uint32_t& process = process_of_group[groups.of(one)];
    if (process == kNoProcess) {
      process = static_cast<std::uint32_t>(ports.size());
      ports.push_back(0);
    }
    result.process_of.push_back(process);
    ports[process] +=
        static_cast<std::uint64_t>(scenario.switches(static_cast<int>(one)).ports_size());
  }
  std::vector<std::vector<std::uint32_t>> neighbours(ports.size());
  for (const Direction& one : network.directions()) {
    const std::uint32_t from = result.process_of[one.from], to = result.process_of[one.to];
    if (from == to) continue;
    neighbours[from].push_back(to);
    result.window_ns = std::min(result.window_ns, one.delay_ns);
  }

  const std::uint64_t all = std::accumulate(ports.begin(), ports.end(), std::uint64_t{0});
  result.thread_of.resize(ports.size());
  std::uint64_t before = 0;  // ports of the processes that have a thread
  std::uint32_t thread = 0;
  for (const std::uint32_t process : neighbours_together(neighbours)) {
    const bool has_share = before > 0 && before * threads >= all * (thread + 1);
    if (has_share && thread + 1 < threads) ++thread;
    result.thread_of[process] = thread;
    before += ports[process];
  }
  return result;
}

}  // namespace tiercast::ns3_runtime
