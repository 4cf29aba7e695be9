#include "protocols/testkit/tcp.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace tiercast::testkit {
namespace {

// What a packet carries, in either direction.
struct Segment {
  std::uint64_t number = 0;  // data: its own number; acknowledgement: the next number expected
  std::int64_t sent_ns = 0;  // time stamp and its echo (RFC 7323)
  bool congestion = false;   // acknowledgement: the acknowledged packet carried CE
};

std::shared_ptr<const std::vector<std::byte>> pack(const Segment& segment) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof segment);
  std::memcpy(bytes->data(), &segment, sizeof segment);
  return bytes;
}

Segment unpack(const Packet& packet) {
  Segment segment;
  std::memcpy(&segment, packet.message->data(), sizeof segment);
  return segment;
}

}  // namespace

class TcpFlow::Source : public Actor, public PacketSink {
 public:
  Source(Simulator& simulator, Tree& tree, Tree::Node from, Tree::Node to, std::uint16_t flow,
         const TcpConfig& config)
      : Actor(simulator), tree_(tree), from_(from), to_(to), flow_(flow), config_(config) {
    tree.attach(from, flow, this);
  }

  void start() {
    running_ = true;
    send_window();
  }
  void stop() { running_ = false; }

  double cwnd() const { return cwnd_; }
  std::uint64_t window_cuts() const { return window_cuts_; }
  Duration srtt() const { return srtt_; }

  void receive(const Packet& packet) override {
    const Segment ack = unpack(packet);
    if (ack.number < snd_una_) return;
    if (ack.number == snd_una_) {
      duplicate(ack);
    } else {
      advance(ack);
    }
    if (ack.congestion && !recovering_ && snd_una_ > cut_until_) {
      cut();
      cut_until_ = snd_nxt_;
    }
    send_window();
  }

 private:
  void act() override {  // the retransmission time-out
    if (snd_una_ == snd_nxt_) return;
    ++window_cuts_;
    ssthresh_ = std::max(flight() / 2, 2.0);
    cwnd_ = 1;
    recovering_ = false;
    duplicates_ = 0;
    recover_ = snd_nxt_;  // RFC 6582 3.2, step 4: no fast retransmit for packets sent before
    snd_nxt_ = snd_una_;
    backoff_ = std::min(backoff_ * 2, 64);
    send_window();
  }

  void advance(const Segment& ack) {
    sample_rtt(now() - Time::nanoseconds(ack.sent_ns));
    backoff_ = 1;
    const std::uint64_t acked = ack.number - snd_una_;
    snd_una_ = ack.number;
    snd_nxt_ = std::max(snd_nxt_, snd_una_);
    if (recovering_ && snd_una_ < recover_) {  // a partial acknowledgement: the next hole
      transmit(snd_una_);
      cwnd_ = std::max(1.0, cwnd_ - static_cast<double>(acked) + 1);
      // RFC 6582 3.2, step 5: only the first partial acknowledgement restarts the timer. Otherwise
      // a window with many holes would be repaired at one hole per round trip, which takes up to a
      // minute while the queue stays full.
      if (partial_acknowledged_) return;
      partial_acknowledged_ = true;
    } else if (recovering_) {
      recovering_ = false;
      cwnd_ = ssthresh_;
      duplicates_ = 0;
    } else {
      duplicates_ = 0;
      cwnd_ += cwnd_ < ssthresh_ ? 1.0 : 1.0 / cwnd_;
    }
    arm();
  }

  void duplicate(const Segment&) {
    if (snd_una_ == snd_nxt_) return;
    ++duplicates_;
    if (recovering_) {
      cwnd_ += 1;
    } else if (duplicates_ == 3 && snd_una_ >= recover_) {
      cut();
      recovering_ = true;
      partial_acknowledged_ = false;
      recover_ = snd_nxt_;
      cwnd_ = ssthresh_ + 3;
      transmit(snd_una_);
      arm();
    }
  }

  void cut() {
    ++window_cuts_;
    ssthresh_ = std::max(flight() / 2, 2.0);
    cwnd_ = ssthresh_;
  }

  double flight() const { return static_cast<double>(snd_nxt_ - snd_una_); }

  void send_window() {
    const double window = std::min(cwnd_, config_.max_window);
    while (flight() + 1 <= window && (running_ || snd_nxt_ < sent_)) {
      const bool first = snd_una_ == snd_nxt_;
      transmit(snd_nxt_++);
      if (first) arm();
    }
    sent_ = std::max(sent_, snd_nxt_);
  }

  void transmit(std::uint64_t number) {
    Packet packet;
    packet.ip_length = config_.packet_size;
    packet.from = from_;
    packet.to = to_;
    packet.session = flow_;
    packet.ect = config_.ecn;
    packet.message = pack({number, now().ns(), false});
    tree_.send(from_, packet);
  }

  void sample_rtt(Duration sample) {  // RFC 6298
    if (srtt_ == Duration::zero()) {
      srtt_ = sample;
      rttvar_ = sample * 0.5;
      return;
    }
    const double error = (sample - srtt_).seconds();
    rttvar_ = rttvar_ * 0.75 + Duration::seconds(std::abs(error) * 0.25);
    srtt_ = srtt_ + Duration::seconds(error * 0.125);
  }

  void arm() {
    if (snd_una_ == snd_nxt_) {
      set_call(Time::never());
      return;
    }
    const Duration rto = srtt_ == Duration::zero() ? Duration::seconds(1) : srtt_ + rttvar_ * 4.0;
    set_call(now() + std::max(rto, config_.min_timeout) * static_cast<double>(backoff_));
  }

  Tree& tree_;
  const Tree::Node from_;
  const Tree::Node to_;
  const std::uint16_t flow_;
  const TcpConfig config_;
  bool running_ = false;
  std::uint64_t snd_una_ = 0;
  std::uint64_t snd_nxt_ = 0;
  std::uint64_t sent_ = 0;     // packets that were sent at least once
  std::uint64_t recover_ = 0;  // RFC 6582
  std::uint64_t cut_until_ = 0;
  double cwnd_ = 2;
  double ssthresh_ = 1e9;
  unsigned duplicates_ = 0;
  bool recovering_ = false;
  bool partial_acknowledged_ = false;  // one has arrived in this recovery
  int backoff_ = 1;
  Duration srtt_;
  Duration rttvar_;
  std::uint64_t window_cuts_ = 0;
};

class TcpFlow::Destination : public PacketSink {
 public:
  Destination(Tree& tree, Tree::Node from, Tree::Node to, std::uint16_t flow,
              const TcpConfig& config)
      : tree_(tree), from_(from), to_(to), flow_(flow), config_(config) {
    tree.attach(to, flow, this);
  }

  std::uint64_t delivered() const { return expected_; }

  void receive(const Packet& packet) override {
    const Segment segment = unpack(packet);
    if (segment.number >= expected_) waiting_.insert(segment.number);
    while (!waiting_.empty() && *waiting_.begin() == expected_) {
      waiting_.erase(waiting_.begin());
      ++expected_;
    }
    Packet ack;
    ack.ip_length = config_.ack_size;
    ack.from = to_;
    ack.to = from_;
    ack.session = flow_;
    ack.message = pack({expected_, segment.sent_ns, packet.ce});
    tree_.send(to_, ack);
  }

 private:
  Tree& tree_;
  const Tree::Node from_;
  const Tree::Node to_;
  const std::uint16_t flow_;
  const TcpConfig config_;
  std::uint64_t expected_ = 0;
  std::set<std::uint64_t> waiting_;
};

TcpFlow::TcpFlow(Simulator& simulator, Tree& tree, Tree::Node from, Tree::Node to,
                 std::uint16_t flow, const TcpConfig& config)
    : source_(std::make_unique<Source>(simulator, tree, from, to, flow, config)),
      destination_(std::make_unique<Destination>(tree, from, to, flow, config)) {}

TcpFlow::~TcpFlow() = default;

void TcpFlow::start() { source_->start(); }
void TcpFlow::stop() { source_->stop(); }
std::uint64_t TcpFlow::delivered_packets() const { return destination_->delivered(); }
double TcpFlow::cwnd() const { return source_->cwnd(); }
std::uint64_t TcpFlow::window_cuts() const { return source_->window_cuts(); }
Duration TcpFlow::srtt() const { return source_->srtt(); }

}  // namespace tiercast::testkit
