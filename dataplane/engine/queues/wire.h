// One direction of a link behind its queue: frames propagate, in order. It can be down, and it can
// lose, duplicate, jitter or reorder frames (WireConfig), with random numbers of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "dataplane/engine/packet/packet_pool.h"
#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class Wire {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  enum class Fate { kSent, kSentTwice, kLost };

  // Says what is wrong; empty if nothing is.
  static std::string wrong(const WireConfig& config);

  // The first seed counts: later changes continue its random numbers, and the state of the loss; a
  // loss without a bad state ends it. Frames on the wire keep the times that they have.
  void set(const WireConfig& config, std::uint64_t seed);
  // Whether frames must pass through impair(). Never false again once it was true.
  bool is_impaired() const { return impairments_ != nullptr; }
  bool is_down() const { return is_impaired() && !impairments_->config.up; }

  // The frame leaves the wire at due_ns, or later, when the one before it has left.
  void put(Packet* packet, std::int64_t due_ns) {
    packet->time_ns = last_due_ns_ = std::max(last_due_ns_, due_ns);
    frames_.push(packet);
  }
  // The same, after chance has decided. A lost packet remains the caller's.
  Fate impair(Packet* packet, std::int64_t due_ns, PacketPool& pool);

  // When the next frame leaves; kNever if there is none. The held ones count only for those who ask
  // for them, since a wire that is not impaired has none.
  std::int64_t next_event() const { return time_of_first(frames_); }
  std::int64_t next_held() const {
    return is_impaired() ? time_of_first(impairments_->held) : kNever;
  }
  bool is_empty() const { return frames_.empty(); }
  Packet* pop() { return frames_.pop(); }
  Packet* pop_held() { return impairments_->held.pop(); }
  // Any frame, the held ones last; null if there is none. Then no later frame has to stay behind
  // those that were taken.
  Packet* pop_any();
  std::uint32_t count() const;

 private:
  struct Impairments {
    WireConfig config;
    std::uint64_t random = 0;
    bool bad = false;  // the state of the Gilbert-Elliott model
    PacketList held;   // the frames that others may overtake
    std::int64_t last_held_ns = 0;
  };
  static std::int64_t time_of_first(const PacketList& list) {
    return list.empty() ? kNever : list.head()->time_ns;
  }
  static bool loses(Impairments& impairments);
  void propagate(Packet* packet, std::int64_t due_ns, bool held);

  PacketList frames_;
  std::int64_t last_due_ns_ = 0;  // keeps frames in order
  std::unique_ptr<Impairments> impairments_;
};

}  // namespace tiercast::engine
