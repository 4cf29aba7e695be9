// Sends one benchmark workload into an interface at a given rate and counts what reaches other
// interfaces.
//
//   tiercast-veth-load --send h1 --count h2,h3 --workload sim_data --rate 20000 --seconds 1
//
// Prints one JSON object: sent; received (frames that the counted interfaces receive until 0.3 s
// pass without one); seconds. It reads the interfaces' own statistics, so that no socket costs time
// at the receiving end.
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/unique_fd.h"
#include "dataplane/switch/bench/main.h"
#include "dataplane/switch/bench/workloads.h"
#include "dataplane/switch/clock.h"

namespace tiercast::bench {
namespace {

constexpr unsigned kBatch = 16;
constexpr std::int64_t kQuietNs = 300'000'000;  // after this long without a frame, no more are
                                                // expected

std::uint64_t received(const std::vector<std::string>& interfaces) {
  std::uint64_t sum = 0;
  for (const std::string& name : interfaces) {
    std::ifstream file("/sys/class/net/" + name + "/statistics/rx_packets");
    std::uint64_t packets = 0;
    if (!(file >> packets)) throw std::runtime_error("no statistics of interface " + name);
    sum += packets;
  }
  return sum;
}

class Sender {
 public:
  Sender(const std::string& interface, const std::vector<std::byte>& frame) {
    fd_ = tiercast::UniqueFd(::socket(AF_PACKET, SOCK_RAW, 0));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_LOOP);  // a protocol of which nothing arrives
    address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
    if (fd_.get() < 0 || address.sll_ifindex == 0 ||
        ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("interface " + interface + ": " + std::strerror(errno));
    }
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    vector_ = {const_cast<std::byte*>(frame.data()), frame.size()};
    for (mmsghdr& m : messages_) {
      m.msg_hdr.msg_iov = &vector_;
      m.msg_hdr.msg_iovlen = 1;
    }
  }
  // Sends at most kBatch frames. Returns how many left.
  unsigned send(std::uint64_t wanted) {
    const int done = ::sendmmsg(fd_.get(), messages_.data(),
                                static_cast<unsigned>(std::min<std::uint64_t>(wanted, kBatch)), 0);
    return done > 0 ? static_cast<unsigned>(done) : 0;
  }

 private:
  tiercast::UniqueFd fd_;
  iovec vector_{};
  std::array<mmsghdr, kBatch> messages_{};
};

int run(int argc, char** argv) {
  CLI::App app("Sends a workload into an interface and counts what arrives at others.");
  std::string interface, name;
  std::vector<std::string> counted;
  double rate = 0, seconds = 1;
  app.add_option("--send", interface, "Interface to send into")->required();
  app.add_option("--count", counted, "Interfaces at which to count")->delimiter(',')->required();
  app.add_option("--workload", name, "sim_data, sim_feedback or tcp")->required();
  app.add_option("--rate", rate, "Frames per second")->required()->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "How long")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  Sender sender(interface, workload(name).frame);
  const std::uint64_t before = received(counted);
  const std::int64_t start = vswitch::monotonic_ns();
  const auto total = static_cast<std::uint64_t>(rate * seconds);
  std::uint64_t sent = 0;
  while (sent < total) {
    const double elapsed = static_cast<double>(vswitch::monotonic_ns() - start) * 1e-9;
    // The duration shows whether the sender kept up with the rate.
    if (elapsed > 2 * seconds) break;
    const auto due = std::min(total, static_cast<std::uint64_t>(elapsed * rate) + 1);
    if (due > sent) sent += sender.send(due - sent);
  }
  const std::int64_t end = vswitch::monotonic_ns();
  std::uint64_t now = received(counted);
  for (std::int64_t quiet = end; vswitch::monotonic_ns() - quiet < kQuietNs;) {
    ::usleep(20'000);
    const std::uint64_t later = received(counted);
    if (later != now) quiet = vswitch::monotonic_ns();
    now = later;
  }
  fmt::print("{{\"sent\": {}, \"received\": {}, \"seconds\": {:.6f}}}\n", sent, now - before,
             static_cast<double>(end - start) * 1e-9);
  return 0;
}

}  // namespace
}  // namespace tiercast::bench

int main(int argc, char** argv) {
  return tiercast::bench::run_main("tiercast-veth-load", argc, argv, tiercast::bench::run);
}
