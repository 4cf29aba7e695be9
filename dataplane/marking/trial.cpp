#include "dataplane/marking/trial.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "dataplane/engine/control/output.h"
#include "dataplane/updates/switch_updates.h"

namespace tiercast::marking {
namespace {

using Frame = std::vector<std::byte>;

constexpr std::size_t kEthernetBytes = 14, kIpv4Bytes = 20, kLeastBytes = 28;
constexpr std::size_t kTosAt = kEthernetBytes + 1, kIdentificationAt = kEthernetBytes + 4;
constexpr std::uint8_t kCe = 3;
constexpr std::size_t kIdentifications = 1 << 16;

void require(bool holds, const std::string& what, const char* valid) {
  if (!holds) throw std::invalid_argument("trial: " + what + "; valid: " + valid);
}

void put(Frame& frame, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) frame.push_back(static_cast<std::byte>(value >> 8 * bytes));
}

// Without its identification and checksum.
Frame frame_of(const v1::TrafficClass& one) {
  Frame frame;
  put(frame, one.mac(), 6);
  put(frame, 0x02'00'00'00'00'fe, 6);
  put(frame, 0x0800, 2);
  put(frame, 0x4500 | one.ecn(), 2);
  put(frame, one.packet_bytes(), 2);
  put(frame, 0, 4);
  put(frame, 64 << 8 | 17, 2);  // TTL, UDP
  put(frame, 0, 2);
  put(frame, 0x0a'ff'ff'fe, 4);
  put(frame, one.destination(), 4);
  put(frame,
      std::uint64_t{9} << 48 | std::uint64_t{9} << 32 | (one.packet_bytes() - kIpv4Bytes) << 16, 8);
  frame.resize(kEthernetBytes + one.packet_bytes());
  return frame;
}

void identify(Frame& frame, std::uint16_t identification) {
  const auto at = frame.begin() + kEthernetBytes;
  at[4] = static_cast<std::byte>(identification >> 8);
  at[5] = static_cast<std::byte>(identification);
  at[10] = at[11] = std::byte{0};
  std::uint32_t sum = 0;  // RFC 1071
  for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(kIpv4Bytes); i += 2) {
    sum += std::to_integer<std::uint32_t>(at[i]) << 8 | std::to_integer<std::uint32_t>(at[i + 1]);
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  at[10] = static_cast<std::byte>(~sum >> 8);
  at[11] = static_cast<std::byte>(~sum);
}

void check(const v1::MarkingTrial& trial) {
  require(trial.has_port() && trial.port().rate_bps() > 0, "port", "one with a rate");
  require(!trial.port().fair_queueing(), "port: fair_queueing", "a queue in order");
  require(trial.classes_size() > 0, "classes", "one or more");
  require(trial.phases_size() > 0, "phases", "one or more");
  for (const v1::TrafficClass& one : trial.classes()) {
    require(one.ecn() <= kCe, "ecn " + std::to_string(one.ecn()), "0 to 3");
    require(one.packet_bytes() >= kLeastBytes && one.packet_bytes() <= 65'000,
            "packet_bytes " + std::to_string(one.packet_bytes()), "28 to 65000");
    require(one.share() > 0, "share " + std::to_string(one.share()), "above 0");
  }
  for (const v1::TrialPhase& phase : trial.phases()) {
    require(phase.duration_ns() > 0, "duration_ns", "above 0");
    require(phase.offered_bps() > 0, "offered_bps", "above 0");
    require(phase.arrivals() != v1::TrialPhase::ARRIVALS_UNSPECIFIED, "arrivals",
            "POISSON, CONSTANT, BURSTS");
    require(phase.arrivals() != v1::TrialPhase::BURSTS || phase.mean_burst() >= 1, "mean_burst",
            "1 or more");
  }
}

class Trial : public engine::Output {
 public:
  Trial(const v1::MarkingTrial& spec, const Record& record)
      : spec_(spec),
        record_(record),
        port_(spec.port().port()),
        random_(spec.seed()),
        switch_(updates::load_program(spec.program()), options(spec), *this),
        config_(updates::port_config(spec.port())),
        packets_(kIdentifications) {
    set_port(spec.ingress_port(), engine::PortConfig{});
    set_port(port_, config_);
    for (const v1::SwitchUpdate& update : spec.updates()) {
      const engine::Status status = updates::apply(switch_, update);
      if (!status.ok()) {
        throw std::invalid_argument("trial: " + update.ShortDebugString() + ": " +
                                    status.message());
      }
    }
    std::vector<double> shares;
    for (const v1::TrafficClass& one : spec.classes()) {
      frames_.push_back(frame_of(one));
      shares.push_back(one.share());
      mean_bits_ += one.share() * 8 * one.packet_bytes();
    }
    double total = 0;
    for (const double share : shares) total += share;
    mean_bits_ /= total;
    class_ = std::discrete_distribution<std::size_t>(shares.begin(), shares.end());
    values_.resize(static_cast<std::size_t>(spec.registers_size()));
    read_registers();  // so that an unknown name is refused before the first packet
  }

  void run() {
    std::int64_t begins = 0;
    for (const v1::TrialPhase& phase : spec_.phases()) {
      if (phase.rate_bps() > 0) {
        advance(begins);
        config_.rate_bps = phase.rate_bps();
        set_port(port_, config_);
      }
      const std::int64_t ends = begins + phase.duration_ns();
      double next = static_cast<double>(begins);
      for (;;) {
        const std::size_t burst = phase.arrivals() == v1::TrialPhase::BURSTS ? burst_of(phase) : 1;
        next += gap(phase);
        if (next >= static_cast<double>(ends)) break;
        for (std::size_t i = 0; i < burst; ++i) arrive(static_cast<std::int64_t>(next));
      }
      begins = ends;
    }
    while (switch_.next_event() != engine::Switch::kNever) advance(switch_.next_event());
    while (oldest_ != newest_) report_oldest();
  }

 private:
  struct Packet {
    PacketRecord record;
    bool decided = false;
    std::vector<std::uint64_t> values;
  };

  static engine::Switch::Options options(const v1::MarkingTrial& spec) {
    engine::Switch::Options result;
    result.seed = spec.seed();
    return result;
  }

  void set_port(std::uint32_t port, const engine::PortConfig& config) {
    const engine::Status status = switch_.set_port(port, config, now_);
    if (!status.ok()) throw std::invalid_argument("trial: " + status.message());
  }

  // ns. The mean is that of all classes together.
  double gap(const v1::TrialPhase& phase) {
    const double burst = phase.arrivals() == v1::TrialPhase::BURSTS ? phase.mean_burst() : 1;
    const double mean = 1e9 * burst * mean_bits_ / phase.offered_bps();
    return phase.arrivals() == v1::TrialPhase::CONSTANT ? mean : mean * exponential_(random_);
  }

  std::size_t burst_of(const v1::TrialPhase& phase) {
    return 1 + std::geometric_distribution<std::size_t>(1 / phase.mean_burst())(random_);
  }

  Packet& packet(std::uint64_t number) { return packets_[number % kIdentifications]; }

  void arrive(std::int64_t at) {
    advance(at);
    if (newest_ - oldest_ == kIdentifications) report_oldest();
    Packet& fresh = packet(newest_);
    const std::size_t of = class_(random_);
    fresh.decided = false;
    fresh.values.assign(values_.size(), 0);
    fresh.record = {};
    fresh.record.arrival_ns = at;
    fresh.record.traffic_class = static_cast<std::uint16_t>(of);
    const engine::PortStats before = switch_.stats(port_);
    fresh.record.found = before.queue_packets;
    identify(frames_[of], static_cast<std::uint16_t>(newest_));
    const std::uint64_t number = newest_++;
    switch_.receive(spec_.ingress_port(), frames_[of], at);
    const engine::PortStats after = switch_.stats(port_);
    if (after.dropped_packets > before.dropped_packets) {
      fresh.record.fate = Fate::kQueueFull;
    } else if (after.early_dropped_packets > before.early_dropped_packets) {
      fresh.record.fate = Fate::kDroppedEarly;
    } else if (after.enqueued_packets > before.enqueued_packets) {
      waiting_.push_back(number);
    }
    decide();
  }

  void advance(std::int64_t until) {
    while (switch_.next_event() <= until) {
      now_ = switch_.next_event();
      switch_.advance(now_);
      decide();
    }
    now_ = until;
    switch_.advance(now_);
  }

  // Finds the packets whose service began at this instant: those that egress dropped, then at most
  // one that is being sent. The queue is in order, so they are the oldest ones.
  void decide() {
    const engine::PortStats stats = switch_.stats(port_);
    const std::uint64_t drops = stats.egress_dropped_packets - egress_dropped_;
    egress_dropped_ = stats.egress_dropped_packets;
    if (drops > 0 || waiting_.size() > stats.queue_packets) read_registers();
    for (std::uint64_t i = 0; i < drops && !waiting_.empty(); ++i) begin(Fate::kDropped);
    while (waiting_.size() > stats.queue_packets) begin(std::nullopt);
  }

  void begin(std::optional<Fate> fate) {
    Packet& one = packet(waiting_.front());
    waiting_.pop_front();
    one.decided = true;
    one.values = values_;
    one.record.wait_ns = std::max(now_, one.record.arrival_ns) - one.record.arrival_ns;
    one.record.left_behind = static_cast<std::uint32_t>(waiting_.size());
    if (fate) one.record.fate = *fate;
  }

  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t) override {
    if (port != port_ || frame.size() < kEthernetBytes + kIpv4Bytes) return;
    const auto identification = std::to_integer<std::uint64_t>(frame[kIdentificationAt]) << 8 |
                                std::to_integer<std::uint64_t>(frame[kIdentificationAt + 1]);
    PacketRecord& record = packets_[identification].record;
    const v1::TrafficClass& of = spec_.classes(record.traffic_class);
    const bool ce = (std::to_integer<std::uint8_t>(frame[kTosAt]) & 3) == kCe;
    record.fate = ce && of.ecn() != kCe ? Fate::kMarked : Fate::kLeft;
  }

  void packet_in(std::span<const std::byte>) override {}

  void read_registers() {
    for (int i = 0; i < spec_.registers_size(); ++i) {
      const engine::Result<engine::Bytes> cell = switch_.read_register(spec_.registers(i), port_);
      if (!cell.ok()) throw std::invalid_argument("trial: " + cell.status().message());
      std::uint64_t value = 0;
      for (const char byte : *cell) value = value << 8 | static_cast<unsigned char>(byte);
      values_[static_cast<std::size_t>(i)] = value;
    }
  }

  void report_oldest() {
    const Packet& one = packet(oldest_++);
    record_(one.record, one.values);
  }

  const v1::MarkingTrial& spec_;
  const Record& record_;
  const std::uint32_t port_;
  std::mt19937_64 random_;
  engine::Switch switch_;
  engine::PortConfig config_;
  std::exponential_distribution<double> exponential_;
  std::discrete_distribution<std::size_t> class_;
  std::vector<Frame> frames_;  // by class
  double mean_bits_ = 0;
  std::vector<Packet> packets_;            // the last ones, by identification
  std::uint64_t oldest_ = 0, newest_ = 0;  // numbers of packets
  std::deque<std::uint64_t> waiting_;      // in the queue
  std::vector<std::uint64_t> values_;      // of the registers now
  std::uint64_t egress_dropped_ = 0;
  std::int64_t now_ = 0;
};

}  // namespace

void run(const v1::MarkingTrial& trial, const Record& record) {
  check(trial);
  Trial(trial, record).run();
}

}  // namespace tiercast::marking
