#include "dataplane/switch/bench/workloads.h"

#include <stdexcept>

namespace tiercast::bench {
namespace {

constexpr std::uint32_t kGroup = 0xefc00008;     // 239.192.0.8: session 1, rank 0
constexpr std::uint32_t kReceiver = 0x0a000002;  // 10.0.0.2
constexpr std::uint32_t kSender = 0x0a000001;
constexpr std::uint16_t kDataPort = 5500;  // docs/wire-format.md
constexpr std::uint16_t kFeedbackPort = 5501;

class Frame {
 public:
  Frame& put(std::uint64_t value, unsigned bytes) {
    while (bytes > 0) bytes_.push_back(static_cast<std::byte>(value >> --bytes * 8));
    return *this;
  }
  // The Ethernet and IPv4 headers of a packet whose IP length will be `length` bytes.
  Frame& ipv4(std::uint64_t mac, std::uint32_t to, unsigned protocol, std::size_t length) {
    put(mac, 6).put(0x020000000002, 6).put(0x0800, 2);
    const std::uint64_t words[] = {
        0x4501,        length,           0,        0,          0x4000 | protocol, 0,
        kSender >> 16, kSender & 0xffff, to >> 16, to & 0xffff};
    std::uint64_t sum = 0;
    for (std::uint64_t w : words) sum += w;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    for (int i = 0; i < 10; ++i) put(i == 5 ? ~sum & 0xffff : words[i], 2);
    return *this;
  }
  Frame& udp(std::uint16_t port, std::size_t length) {
    return put(port, 2).put(port, 2).put(length, 2).put(0, 2);
  }
  std::vector<std::byte> take(std::size_t ip_length) {
    bytes_.resize(14 + ip_length);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> sim_data() {
  Frame f;
  f.ipv4(0x01005e400008, kGroup, 17, 1000).udp(kDataPort, 980);
  f.put(0x01010100, 4).put(32, 2).put(1, 2);  // version, type data, scheme SIM; session 1
  f.put(0, 4).put(1, 4).put(2, 4).put(3, 4).put(75000, 4).put(60000, 4);
  return f.take(1000);
}

std::vector<std::byte> sim_feedback() {
  constexpr std::size_t kMessage = 8 + 20 + 24;  // with one record
  Frame f;
  f.ipv4(0x020000000001, kReceiver, 17, 28 + kMessage).udp(kFeedbackPort, 8 + kMessage);
  f.put(0x01020100, 4).put(kMessage, 2).put(1, 2);
  f.put(kSender, 4).put(3, 4).put(1000, 4).put(60000, 4).put(0x01000000, 4);
  f.put(0, 4).put(1, 4).put(0, 4).put(75000, 4).put(75000, 4).put(1, 4);
  return f.take(28 + kMessage);
}

engine::Bytes number(std::uint64_t value, unsigned bytes) {
  engine::Bytes out;
  while (bytes > 0) out.push_back(static_cast<char>(value >> --bytes * 8));
  return out;
}

}  // namespace

void require(const engine::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {{"sim_data", kCopies, sim_data()},
                                            {"sim_feedback", 1, sim_feedback()},
                                            {"tcp", 1, tcp_frame(1000)}};
  return all;
}

const Workload& workload(const std::string& name) {
  std::string valid;
  for (const Workload& w : workloads()) {
    if (w.name == name) return w;
    valid += (valid.empty() ? "" : ", ") + w.name;
  }
  throw std::invalid_argument("no workload '" + name + "'; valid: " + valid);
}

std::vector<std::byte> tcp_frame(std::size_t ip_length) {
  Frame f;
  f.ipv4(0x020000000001, kReceiver, 6, ip_length);
  f.put(40000, 2).put(80, 2).put(1, 4).put(1, 4).put(0x5010, 2).put(0xffff, 2).put(0, 4);
  return f.take(ip_length);
}

void install_router_entries(engine::Switch& to) {
  require(to.insert_entry("MyIngress.host",
                          {{engine::FieldMatch::exact(number(kReceiver, 4))},
                           0,
                           {"MyIngress.forward", {number(2, 2), number(0x020000000003, 6)}},
                           {}}));
}

void install_router_copies(engine::Switch& to, std::uint16_t instance) {
  require(to.insert_entry("MyIngress.host", {{engine::FieldMatch::exact(number(kReceiver, 4))},
                                             0,
                                             {"MyIngress.replicate", {number(1, 2)}},
                                             {}}));
  std::vector<engine::Replica> replicas;
  for (std::uint32_t port = 2; port <= kPorts; ++port) replicas.push_back({port, instance});
  require(to.insert_multicast_group(1, replicas));
}

void install_entries(engine::Switch& to) {
  using engine::FieldMatch;
  require(to.insert_entry("ipv4_host", {{FieldMatch::exact(number(kReceiver, 4))},
                                        0,
                                        {"forward", {number(2, 2), number(0x020000000003, 6)}},
                                        {}}));
  require(to.insert_entry(
      "ipv4_multicast",
      {{FieldMatch::exact(number(kGroup, 4))},
       0,
       {"replicate_from", {number(1, 2), number(kSender, 4), number(1, 2), number(1, 2)}},
       {}}));
  // Of the port that the packets leave by; they arrive from a switch.
  require(to.insert_entry(
      "source_guard",
      {{FieldMatch::exact(number(2, 2))}, 0, {"only_from", {number(kReceiver, 4)}}, {}}));
  require(to.insert_multicast_group(1, {{2, 1}, {3, 1}, {4, 1}, {5, 1}}));
}

}  // namespace tiercast::bench
