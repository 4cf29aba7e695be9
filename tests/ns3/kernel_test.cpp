// Logical processes on threads: what they do is a function of the model alone.
// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/kernel.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tiercast::ns3_runtime {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kDelay = 100;  // of every link, and of the control process

// Sends tokens to the next node after kDelay, as a switch's wire does: they are on it meanwhile.
class Node final : public Receiver, public Source {
 public:
  Node(LogicalProcess& process, std::vector<std::string>& state)
      : process_(process), state_(state) {
    process.add(*this);
  }
  void connect(Node& to) { to_ = &to; }

  // A token that goes on, until it has made that many hops.
  void start(std::int64_t at_ns, int hops) {
    process_.at(at_ns, [this, hops] { put(hops); });
  }
  void receive(std::uint32_t port, std::span<const std::byte> frame) override {
    int hops = 0;
    std::memcpy(&hops, frame.data(), sizeof hops);
    say("token " + std::to_string(hops) + " from " + std::to_string(port));
    if (hops > 0) put(hops - 1);
  }
  void hand_over(std::int64_t before_ns) override {
    while (!wire_.empty() && wire_.front().first < before_ns) {
      const auto [due_ns, hops] = wire_.front();
      wire_.erase(wire_.begin());
      std::byte frame[sizeof hops];
      std::memcpy(frame, &hops, sizeof hops);
      process_.send(to_->process_,
                    {due_ns, process_.number(), process_.number(), sent_++, to_, frame});
    }
    wait();
  }
  void say(const std::string& what) {
    const std::string line = std::to_string(process_.now()) + " " +
                             std::to_string(process_.number()) + " " + what + "\n";
    state_.push_back(line);
    process_.write(line);
  }
  LogicalProcess& process() { return process_; }
  std::size_t on_wire() const { return wire_.size(); }

 private:
  void put(int hops) {
    wire_.emplace_back(process_.now() + kDelay, hops);
    wait();
  }
  void wait() {
    if (wire_.empty()) return process_.cancel(leaves_);
    process_.schedule(leaves_, wire_.front().first);
  }
  void leave() { FAIL() << "it was to be handed over before"; }

  LogicalProcess& process_;
  std::vector<std::string>& state_;
  Node* to_ = nullptr;
  std::uint64_t sent_ = 0;
  std::vector<std::pair<std::int64_t, int>> wire_;  // when it leaves, hops
  Call<Node> leaves_{*this, &Node::leave};
};

struct Ring {
  explicit Ring(const std::vector<std::uint32_t>& thread_of)
      : kernel(
            thread_of, kDelay, [this](std::string_view line) { output += line; }, 0),
        said(thread_of.size()) {
    for (std::uint32_t i = 0; i < thread_of.size(); ++i) {
      nodes.push_back(std::make_unique<Node>(kernel.process(i), said[i]));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i)
      nodes[i]->connect(*nodes[(i + 1) % nodes.size()]);
  }

  std::string output;
  Kernel kernel;
  std::vector<std::vector<std::string>> said;  // by process
  std::vector<std::unique_ptr<Node>> nodes;
};

TEST(Kernel, MessagesArriveAtTheirTime) {
  Ring ring({0, 0, 0});
  ring.nodes[0]->start(5, 3);
  ring.kernel.run(10'000);
  EXPECT_EQ(ring.output,
            "105 1 token 3 from 0\n205 2 token 2 from 1\n305 0 token 1 from 2\n"
            "405 1 token 0 from 0\n");
}

// The control process answers a while later, and processes write, as in a run.
std::string run_at_random(unsigned seed, std::uint32_t threads) {
  std::vector<std::uint32_t> thread_of;
  for (std::uint32_t i = 0; i < 12; ++i) thread_of.push_back(i * threads / 12);
  Ring ring(thread_of);
  std::mt19937 draw(seed);
  for (const auto& node : ring.nodes) {
    for (int i = 0; i < 3; ++i) {
      node->start(draw() % 20 * 50, static_cast<int>(draw() % 40));
      const std::int64_t at = draw() % 40 * 50;
      Node* const other = ring.nodes[draw() % 12].get();
      node->process().at(at, [&ring, from = node.get(), other] {
        from->process().ask_control([&ring, other] {
          LogicalProcess& control = ring.kernel.control();
          const std::int64_t asked_ns = control.now();
          other->process().at(asked_ns + kDelay, [other, asked_ns] {
            other->say("asked at " + std::to_string(asked_ns));
          });
        });
      });
    }
  }
  for (std::int64_t at = 0; at < 3000; at += 700) {
    ring.kernel.pause_at(at, [&ring, at] {
      std::size_t on_wires = 0;
      for (const auto& node : ring.nodes) {
        EXPECT_EQ(node->process().now(), at);
        on_wires += node->on_wire();
      }
      ring.output += "on wires " + std::to_string(on_wires) + "\n";
    });
  }
  ring.kernel.run(5000);
  return ring.output;
}

TEST(Kernel, AnyNumberOfThreadsGivesTheSameRun) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const std::string alone = run_at_random(seed, 1);
    EXPECT_GT(alone.size(), 1000U);
    for (const std::uint32_t threads : {2U, 3U}) {
      ASSERT_EQ(run_at_random(seed, threads), alone) << "seed " << seed << ", threads " << threads;
    }
  }
}

TEST(Kernel, AtOneInstantEarlierEventsThenMessagesThenNewEvents) {
  Ring ring({0, 0});
  Node& node = *ring.nodes[1];
  ring.nodes[0]->start(0, 0);
  node.process().at(kDelay, [&node] {
    node.say("before");
    node.process().at(node.process().now(), [&node] { node.say("after"); });
  });
  ring.kernel.run(1000);
  EXPECT_THAT(ring.said[1],
              ElementsAre("100 1 before\n", "100 1 token 0 from 0\n", "100 1 after\n"));
}

TEST(Kernel, APauseComesBeforeWhatIsDueThen) {
  Ring ring({0, 0});
  ring.nodes[0]->start(0, 0);
  ring.kernel.pause_at(kDelay, [&ring] {
    EXPECT_TRUE(ring.said[1].empty());
    EXPECT_EQ(ring.nodes[0]->on_wire(), 1U);
  });
  ring.kernel.run(1000);
  EXPECT_EQ(ring.said[1].size(), 1U);
}

TEST(Kernel, AMessageThatIsSentInAPauseArrives) {
  Ring ring({0, 1});
  Node& to = *ring.nodes[1];
  ring.kernel.pause_at(50, [&ring, &to] {
    const int hops = 0;
    std::byte frame[sizeof hops];
    std::memcpy(frame, &hops, sizeof hops);
    ring.nodes[0]->process().send(to.process(), {400, 0, 9, 0, &to, frame});
  });
  ring.kernel.run(1000);
  EXPECT_THAT(ring.said[1], ElementsAre("400 1 token 0 from 9\n"));
}

TEST(Kernel, RunsEndBeforeWhatIsDueThenAndWithAllClocksAtTheEnd) {
  Ring ring({0, 1, 1});
  ring.nodes[0]->start(0, 9);
  ring.kernel.run(kDelay);
  EXPECT_EQ(ring.output, "");
  for (const auto& node : ring.nodes) EXPECT_EQ(node->process().now(), kDelay);
}

TEST(Kernel, PassesOnWhatAProcessThrows) {
  for (const std::uint32_t thrower : {0U, 2U}) {
    Ring ring({0, 1, 2});
    ring.nodes[thrower]->process().at(70, [] { throw std::runtime_error("no such table"); });
    EXPECT_THROW(ring.kernel.run(1000), std::runtime_error);
  }
}

}  // namespace
}  // namespace tiercast::ns3_runtime
