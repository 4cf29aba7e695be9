// The sessions of one transmitting thread: their cores, timers, pacer and packets. It has no device
// and no clock.
//
// A Worker runs it over DPDK in real time; the dry run (schedule.h) runs it in virtual time. One
// thread calls everything except read_layers() and the counters.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/file.h"
#include "agent/seal.h"
#include "dataplane/sender/frames/frame_template.h"
#include "dataplane/sender/frames/neighbour.h"
#include "dataplane/sender/frames/payload.h"
#include "dataplane/sender/metrics/statistics.h"
#include "protocols/base/huge_pages.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/driver/sender_driver.h"
#include "protocols/pacer/line_pacer.h"
#include "protocols/pacer/timing_wheel.h"

namespace tiercast::sender {

class SessionTable;

// Where a core's records go, and its messages other than data packets.
class Outlet {
 public:
  virtual ~Outlet() = default;
  // Takes a whole frame, which is valid only during the call.
  virtual void control(std::span<const std::byte> frame) = 0;
  virtual void record(Time time, std::uint16_t session, std::string_view kind,
                      std::span<const TraceField> fields) = 0;
};

// A request for a session.
struct SessionRequest {
  std::string scheme;
  SessionConfig config;
  int top_rank = -1;  // highest rank with a subscriber; -1: none
  // What a reliable scheme transfers; null: an endless stream.
  std::shared_ptr<const agent::FileContents> input;
  std::string port;                        // DPDK's name of the port that sends it; "": any
  std::optional<agent::SessionKeys> keys;  // empty: messages carry no seals
};

// One session. The controlling thread makes it, passes it to a table, and gets it back to destroy
// it.
class Session final {
 public:
  // Makes the core, which may throw ConfigError. `slot`: the session's own place in the table. It
  // starts at `start_at`, or when it is passed to the table if that is later.
  Session(const SessionRequest& request, std::uint32_t slot, Time start_at);

  ~Session();

  const SessionConfig& config() const { return config_; }
  std::uint8_t scheme_id() const { return scheme_id_; }
  bool reliable() const { return input_ != nullptr; }
  std::uint32_t slot() const { return slot_; }
  // Any thread.
  bool started() const { return started_.load(std::memory_order_acquire); }
  bool finished() const { return finished_.load(std::memory_order_relaxed); }

 private:
  friend class SessionTable;
  // Where the session's layers are in the pacer that all sessions of a table share.
  class Places {
   public:
    explicit Places(Session& session) : session_(&session) {}
    void set_rate(Time now, Rank layer, Rate rate);
    void release(Rank layer, std::uint32_t packets);

   private:
    Session* session_;
  };
  using Driver = SenderDriver<Session, Places>;
  friend Driver;

  void send(Destination to, std::span<const std::byte> message);
  bool wants_records() const;
  void trace(Time now, std::string_view kind, std::span<const TraceField> fields);

  // The members that each departure reads come first. (No alignas: aligned blocks would lie apart
  // from their cores, and with 100,000 layers the table would lose 5 % to TLB misses.)
  Time timer_ = Time::never();  // as scheduled; never: it is not
  std::optional<Driver> driver_;
  SessionTable* table_ = nullptr;
  std::shared_ptr<const agent::FileContents> input_;
  SessionConfig config_;
  std::uint32_t slot_;
  Time start_at_;
  std::uint8_t scheme_id_ = 0;
  std::uint64_t invalid_seen_ = 0;
  FeedbackRefusals refusals_seen_;
  bool heard_ = false;   // the core has had feedback
  bool ending_ = false;  // stop() has been called
  struct Seals;
  std::unique_ptr<Seals> seals_;  // null: messages carry none
  std::atomic<bool> started_{false};
  std::atomic<bool> finished_{false};
};

class SessionTable {
 public:
  struct Settings {
    std::uint32_t sessions = 1;  // that may run at the same time
    SenderAddresses addresses;
    const Neighbour* gateway = nullptr;  // null: use addresses.gateway
    ChecksumOffload offload;
    PayloadSource* payload = nullptr;  // null: the pattern
    std::size_t largest_frame = 9018;  // bytes
    bool records = false;              // whether Outlet::record() is wanted
    // True: buffers passed to write() hold the pattern in their message, except for what write()
    // changed. False: write() writes every byte.
    bool prefilled = false;
  };

  using Layer = std::uint32_t;  // slot * kMaxLayers + rank
  using Departure = LinePacer::Departure;
  // A frame that write() has begun.
  struct Frame {
    std::size_t bytes = 0;     // its length; 0: the core has nothing to send
    std::size_t unsummed = 0;  // first bytes of the message that `sum` does not cover
    std::uint64_t sum = 0;     // of the other bytes of the message
  };

  SessionTable(const Settings& settings, Outlet& outlet);

  // The session must live until stop(). Its counters must be read before its slot is used again.
  void start(Time now, Session& session);
  void set_membership(Time now, Session& session, int top_rank);
  void stop(Time now, Session& session);

  // The next packets that are due at `now`, or by `until` if the caller prepares packets ahead; as
  // many as `departures` has room for. Returns their number. Packets that a window released come
  // first, one per layer in turn.
  std::size_t pop(Time now, Time until, std::span<Departure> departures) {
    return waiting_ > 0 ? pop_released(now, departures) : pacer_.pop(now, until, departures);
  }
  std::optional<Departure> pop(Time now) {
    Departure departure;
    if (pop(now, now, {&departure, 1}) == 0) return std::nullopt;
    return departure;
  }
  // Prefetches what write() will need, in two steps, because the second step reads what the first
  // one fetched.
  void prefetch(Layer layer) const {
    const auto* const state = reinterpret_cast<const std::byte*>(&layers_[layer]);
    __builtin_prefetch(state, 1);
    __builtin_prefetch(state + 64, 1);
    __builtin_prefetch(&slots_[layer / kMaxLayers]);
  }
  void prefetch_session(Layer layer) const {
    const Slot& slot = slots_[layer / kMaxLayers];
    __builtin_prefetch(slot.core, 1);
    __builtin_prefetch(slot.session);
  }
  // Builds the packet of a departure, with headers for the time `now`, in two steps: write() all
  // but the checksum of UDP, then finish(). Both for one frame after the other would wait: what was
  // written byte by byte must reach the cache before it can be summed by words. So a burst is first
  // written, then finished. The caller then reports the packet's fate by sent() or dropped().
  Frame write(Layer layer, Time now, std::byte* frame);
  void finish(Layer layer, const Frame& written, std::byte* frame) const {
    if (settings_.offload.udp) return;
    const FrameTemplate& headers = layers_[layer].headers;
    headers.write_checksum(
        frame, wire::sum_words(frame + headers.header_bytes(), written.unsummed) + written.sum);
  }
  // Both steps. Returns the frame's length in bytes.
  std::size_t build(Layer layer, Time now, std::byte* frame) {
    const Frame written = write(layer, now, frame);
    if (written.bytes > 0) finish(layer, written, frame);
    return written.bytes;
  }
  std::size_t header_bytes() const { return header_bytes_; }
  void sent(std::span<const Departure> departures) {
    std::uint64_t bytes = 0;
    for (const Departure& departure : departures) {
      LayerState& layer = layers_[departure.layer];
      layer.sent.add();
      bytes += layer.ip_bytes;
    }
    sent_.add(departures.size());
    sent_bytes_.add(bytes);
  }
  // Of a packet that is handed over to the device at `now`, whatever becomes of it: the interval
  // since the layer's packet before, minus the interval that the layer's rate requires. Nothing if
  // there was none at this rate, or a window instead of a rate.
  std::optional<Duration> gap_error(Layer id, Time now) {
    LayerState& layer = layers_[id];
    const std::int64_t before_ns = std::exchange(layer.handed_over_ns, now.ns());
    if (before_ns == kNone || layer.interval_ns == 0) return std::nullopt;
    return Duration::nanoseconds(now.ns() - before_ns -
                                 static_cast<std::int64_t>(layer.interval_ns));
  }
  // `built`: false if there was no buffer at all.
  void dropped(Layer layer, bool built);

  void receive(Time now, std::uint32_t slot, std::uint16_t session, Arrival arrival);
  // Runs the timer that is due first. False if none is due.
  bool run_timer(Time now);
  // Does work ahead, in spare time.
  void prepare() {
    pacer_.prepare();
    publish();
  }
  // Updates what read() returns.
  void publish() { given_up_.store(pacer_.given_up(), std::memory_order_relaxed); }
  // The latest time at which run() must be called again. May be earlier than necessary.
  Time next_deadline() const;
  Time next_departure() const { return waiting_ == 0 ? pacer_.next_departure() : Time::zero(); }

  // Any thread.
  void read(WorkerStatistics& out) const;
  void read_layers(const Session& session, std::vector<LayerStatistics>& out) const;

 private:
  friend class Session;

  static constexpr std::int64_t kNone = INT64_MIN;

  struct alignas(64) LayerState {
    FrameTemplate headers;        // 60 bytes
    std::uint16_t tail_from = 0;  // bytes of the message that `tail_sum` does not cover
    Rank rank = 0;
    bool whole_message = false;  // the core writes the payload, too
    // The second cache line.
    Session* session = nullptr;
    std::uint16_t ip_bytes = 0;
    bool waiting = false;        // whether it is in released_
    std::uint32_t tail_sum = 0;  // of the pattern from tail_from on
    std::uint32_t released = 0;  // packets that may leave now
    float interval_ns = 0;       // whole, as the rate requires, to one part in 16 million; 0: none
    Counter generated, sent, dropped;
    std::atomic<double> rate{0};          // bytes/s
    std::int64_t handed_over_ns = kNone;  // the packet before; kNone: no packet at this rate
  };
  static_assert(sizeof(LayerState) == 128, "two cache lines");

  struct Timer : WheelNode {};

  struct Slot {
    Session* session = nullptr;
    const SenderCore* core = nullptr;  // the session's
  };

  void begin(Session& session);
  void enqueue_released(Layer layer);
  std::size_t pop_released(Time now, std::span<Departure> departures);
  void after(Session& session);
  static void note_finished(Session& session);
  void schedule(Session& session, Time next);  // never: no timer
  void control(const Session& session, Destination to, std::span<const std::byte> message);

  const Settings settings_;
  Outlet& outlet_;
  LinePacer pacer_;
  TimingWheel<Timer> timers_;
  std::vector<LayerState, HugePages<LayerState>> layers_;
  std::vector<Slot> slots_;
  std::vector<Layer> released_;  // a ring of the layers that wait, each once
  std::size_t first_released_ = 0;
  std::size_t waiting_ = 0;
  Time now_;
  std::uint16_t next_ip_id_ = 0;
  std::size_t header_bytes_;
  bool prefilled_;
  // If prefilled_: the first bytes of a buffer's message that may differ from the pattern.
  std::size_t changed_ = 0;
  Counter generated_, sent_, sent_bytes_, dropped_, feedback_delivered_, feedback_refused_,
      feedback_late_, feedback_non_member_, feedback_impersonated_, feedback_implausible_,
      feedback_forged_, feedback_replayed_, payload_underruns_;
  std::atomic<std::uint64_t> given_up_{0};
  std::atomic<std::uint32_t> running_sessions_{0};
  std::atomic<std::uint32_t> running_layers_{0};
};

}  // namespace tiercast::sender
