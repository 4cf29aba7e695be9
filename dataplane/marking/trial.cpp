#include "dataplane/marking/trial.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/config_error.h"
#include "dataplane/engine/api/switch.h"
#include "dataplane/engine/control/output.h"
#include "dataplane/marking/arrivals.h"
#include "dataplane/updates/switch_updates.h"

namespace tiercast::marking {
namespace {

using Frame = std::vector<std::byte>;

constexpr std::size_t kEthernetBytes = 14, kIpv4Bytes = 20;
constexpr std::size_t kTosAt = kEthernetBytes + 1, kIdentificationAt = kEthernetBytes + 4;
constexpr std::uint8_t kCe = 3;
constexpr std::size_t kIdentifications = 1 << 16;

void put(Frame& frame, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) frame.push_back(static_cast<std::byte>(value >> 8 * bytes));
}

constexpr std::size_t kQueues = 2;  // at most (engine::PriorityQueues)

// The queue of a frame on a port with two: a program with QueueClass (p4src/lib/queue_class.p4)
// sends ECT(1) and CE into the second.
std::uint32_t queue_of(std::span<const std::byte> frame) {
  return frame.size() > kTosAt ? std::to_integer<std::uint32_t>(frame[kTosAt]) & 1 : 0;
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

class Trial : public engine::Output {
 public:
  Trial(const v1::MarkingTrial& spec, const Record& record)
      : spec_(spec),
        record_(record),
        port_(spec.port().port()),
        two_queues_(spec.port().priority_queues().queues() == kQueues),
        switch_(updates::load_program(spec.program()), options(spec), *this),
        config_(updates::port_config(spec.port())),
        packets_(kIdentifications) {
    set_port(spec.ingress_port(), engine::PortConfig{});
    set_port(port_, config_);
    for (const v1::SwitchUpdate& update : spec.updates()) {
      const engine::Status status = updates::apply(switch_, update);
      if (!status.ok()) {
        throw ConfigError("trial: " + update.ShortDebugString() + ": " + status.message());
      }
    }
    for (const v1::TrafficClass& one : spec.classes()) frames_.push_back(frame_of(one));
    values_.resize(static_cast<std::size_t>(spec.registers_size()));
    read_registers();  // so that an unknown name is refused before the first packet
  }

  void run() {
    for_each_arrival(
        spec_,
        [this](std::int64_t time_ns, double rate_bps) {
          advance(time_ns);
          config_.rate_bps = rate_bps;
          set_port(port_, config_);
        },
        [this](std::int64_t time_ns, std::size_t traffic_class) {
          arrive(time_ns, traffic_class);
        });
    while (switch_.next_event() != engine::Switch::kNever) advance(switch_.next_event());
    while (oldest_ != newest_) report_oldest();
  }

 private:
  struct Packet {
    PacketRecord record;
    bool waits = false;  // nothing has become of it yet
    std::vector<std::uint64_t> values;
  };

  static engine::Switch::Options options(const v1::MarkingTrial& spec) {
    engine::Switch::Options result;
    result.seed = spec.seed();
    result.label.of_frame = queue_of;
    result.depth_register = spec.depth_register();
    return result;
  }

  void set_port(std::uint32_t port, const engine::PortConfig& config) {
    const engine::Status status = switch_.set_port(port, config, now_);
    if (!status.ok()) throw ConfigError("trial: " + status.message());
  }

  Packet& packet(std::uint64_t number) { return packets_[number % kIdentifications]; }

  void arrive(std::int64_t at, std::size_t of) {
    advance(at);
    if (newest_ - oldest_ == kIdentifications) make_room();
    Packet& fresh = packet(newest_);
    fresh.waits = false;
    fresh.values.assign(values_.size(), 0);
    fresh.record = {};
    fresh.record.arrival_ns = at;
    fresh.record.traffic_class = static_cast<std::uint16_t>(of);
    const engine::PortStats before = switch_.stats(port_);
    Queue& queue = queues_[two_queues_ ? queue_of(frames_[of]) : 0];
    fresh.record.found = static_cast<std::uint32_t>(queue.waiting.size());
    identify(frames_[of], static_cast<std::uint16_t>(newest_));
    const std::uint64_t number = newest_++;
    switch_.receive(spec_.ingress_port(), frames_[of], at);
    const engine::PortStats after = switch_.stats(port_);
    if (after.dropped_packets > before.dropped_packets) {
      fresh.record.fate = Fate::kQueueFull;
    } else if (after.early_dropped_packets > before.early_dropped_packets) {
      fresh.record.fate = Fate::kDroppedEarly;
    } else if (after.enqueued_packets > before.enqueued_packets) {
      queue.waiting.push_back(number);
      fresh.waits = true;
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
  // one that is being sent. Each queue is in order, so they are its oldest ones.
  void decide() {
    std::size_t left = 0;
    for (const Queue& queue : queues_) left += queue.waiting.size();
    if (left == switch_.stats(port_).queue_packets) return;
    read_registers();
    engine::LabelCounts total;
    for (const engine::LabelCounts& label : switch_.label_counts(port_)) {
      if (two_queues_) {
        serve(queues_[label.label], label);
      } else {
        total.served += label.served;
        total.not_sent += label.not_sent;
      }
    }
    if (!two_queues_) serve(queues_[0], total);
  }

  struct Queue {
    std::deque<std::uint64_t> waiting;      // numbers of packets
    std::uint64_t served = 0, dropped = 0;  // of the packets so far, by egress
  };

  void serve(Queue& queue, const engine::LabelCounts& counts) {
    for (; queue.dropped < counts.not_sent; ++queue.dropped, ++queue.served) {
      begin(queue, Fate::kDropped);
    }
    for (; queue.served < counts.served; ++queue.served) begin(queue, std::nullopt);
  }

  void begin(Queue& queue, std::optional<Fate> fate) {
    Packet& one = packet(queue.waiting.front());
    queue.waiting.pop_front();
    one.waits = false;
    one.values = values_;
    one.record.wait_ns = std::max(now_, one.record.arrival_ns) - one.record.arrival_ns;
    one.record.left_behind = static_cast<std::uint32_t>(queue.waiting.size());
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
      if (!cell.ok()) throw ConfigError("trial: " + cell.status().message());
      std::uint64_t value = 0;
      for (const char byte : *cell) value = value << 8 | static_cast<unsigned char>(byte);
      values_[static_cast<std::size_t>(i)] = value;
    }
  }

  // For a packet that gets the identification of the oldest one.
  void make_room() {
    if (packet(oldest_).waits) {
      throw ConfigError("trial: " + std::to_string(kIdentifications) +
                        " packets arrived while one waited, port has queue_packets " +
                        std::to_string(config_.queue_packets) + " and queue_bytes " +
                        std::to_string(config_.queue_bytes) +
                        "; valid: a shorter queue (0 is one without a limit), or less load");
    }
    report_oldest();
  }

  void report_oldest() {
    const Packet& one = packet(oldest_++);
    record_(one.record, one.values);
  }

  const v1::MarkingTrial& spec_;
  const Record& record_;
  const std::uint32_t port_;
  const bool two_queues_;
  engine::Switch switch_;
  engine::PortConfig config_;
  std::vector<Frame> frames_;              // by class
  std::vector<Packet> packets_;            // the last ones, by identification
  std::uint64_t oldest_ = 0, newest_ = 0;  // numbers of packets
  std::array<Queue, kQueues> queues_;
  std::vector<std::uint64_t> values_;  // of the registers now
  std::int64_t now_ = 0;
};

}  // namespace

void run(const v1::MarkingTrial& trial, const Record& record) {
  if (trial.port().fair_queueing()) {
    throw ConfigError("trial: port: fair_queueing; valid: a queue in order, or two by priority");
  }
  if (trial.has_queue_disc()) {
    throw ConfigError("trial: queue_disc; valid: none, it is tiercast-ns3's");
  }
  Trial(trial, record).run();
}

}  // namespace tiercast::marking
