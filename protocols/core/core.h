// What every scheme implements (Core) and what every runtime offers to it (Sink).
//
// A core does no I/O, reads no clock and allocates nothing after construction. A runtime calls it
// with the time and one input; the core answers by calling the Sink before it returns. A core
// belongs to one thread.
//
// Order of calls: start() once; then receive(), timer(), membership() and write_data() in any
// order; stop() at most once, and then only the destructor. `now` may be a receive time stamp, so
// it may lie slightly before an earlier `now`; cores use the later of the two. After every call the
// runtime asks for next_timer() again, and calls timer() when that instant is reached. A late call
// is allowed; an early one is harmless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "protocols/base/units.h"
#include "protocols/core/members.h"
#include "protocols/core/parameters.h"

namespace tiercast {

// A layer of a session; 0 is the bottom layer. Valid: 0 .. kMaxLayers-1.
using Rank = std::uint8_t;
inline constexpr unsigned kMaxLayers = 8;               // 3 bits of the group address (SIM 3.1)
inline constexpr std::uint32_t kIpUdpHeaderBytes = 28;  // IPv4 without options, and UDP

struct Lie;

// One received message.
struct Arrival {
  std::span<const std::byte> message;  // UDP payload
  std::uint32_t ip_length = 0;         // bytes, IP header included
  bool ce = false;                     // ECN field was CE
  std::uint32_t from = 0;              // IPv4 source address, host order
};

struct Destination {
  enum class Kind { kSender, kReceiver, kGroup };
  Kind kind = Kind::kSender;
  std::uint32_t address = 0;  // kReceiver: IPv4 address, host order
  Rank rank = 0;              // kGroup

  static Destination sender() { return {}; }
  static Destination receiver(std::uint32_t address) { return {Kind::kReceiver, address, 0}; }
  static Destination group(Rank rank) { return {Kind::kGroup, 0, rank}; }
};

struct TraceField {
  std::string_view name;
  double value;
};

// The runtime, as a core sees it. The core calls it synchronously; the runtime must not call the
// core back. Spans and views are valid only during the call. The drivers enforce the rules below
// (protocols/driver/contract.h).
class Sink {
 public:
  virtual ~Sink() = default;
  // Sends a control message, such as feedback: from a sender to a group or a receiver, or from a
  // receiver to the sender. Data messages leave through the pacer and write_data().
  virtual void send(Destination to, std::span<const std::byte> message) = 0;
  // Receivers only. join() needs a layer that is not joined, leave() one that is.
  virtual void join(Rank rank) = 0;
  virtual void leave(Rank rank) = 0;
  // Senders only: the rate of one layer in IP bytes per second, finite. 0 stops the layer. The
  // first packet of a started layer leaves at once.
  virtual void set_rate(Rank layer, Rate rate) = 0;
  // Window-based senders: lets this many more data packets of `layer` leave, back to back, as soon
  // as the core has returned. write_data() is called for each first. Independent of set_rate().
  virtual void release(Rank layer, std::uint32_t packets) = 0;
  // Receivers of reliable schemes: hands over a part of the object, `offset` bytes from its start.
  // Each byte is delivered once; the scheme says whether they come in order.
  virtual void deliver(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Writes one record to the log. Kinds are "subscription" {top} and those that the scheme lists
  // (Scheme::records). At most 64 fields. A field's name starts with a letter and continues with
  // letters, digits and `_`.
  virtual void trace(std::string_view kind, std::span<const TraceField> fields) = 0;
};

class Core {
 public:
  virtual ~Core() = default;
  virtual void start(Time now, Sink& sink) = 0;
  // `arrival.message` may hold any bytes. What is not a valid message of this session is counted
  // and ignored.
  virtual void receive(Time now, const Arrival& arrival, Sink& sink) = 0;
  virtual void timer(Time now, Sink& sink) = 0;
  // Time::never() if no timer is set.
  virtual Time next_timer() const = 0;
  virtual void stop(Time now, Sink& sink) = 0;
};

class SenderCore : public Core {
 public:
  // The highest rank that has a subscriber anywhere; -1 if nobody subscribes.
  virtual void membership(Time now, int top_rank, Sink& sink) = 0;
  // Writes fresh headers for the next data message of `layer` at the start of `message` (the whole
  // UDP payload, packet_size - kIpUdpHeaderBytes bytes) and returns their length. The rest is
  // payload and is left alone; a reliable scheme writes its part of the object there. Called once
  // per departure, in order of departure. Returns 0, which means that the packet must not be sent,
  // if the layer does not exist, `message` is too short for the headers, or a window-based scheme
  // has nothing to send.
  virtual std::size_t write_data(Time now, Rank layer, std::span<std::byte> message) = 0;
  // Messages that receive() has refused since start(): invalid or of another session, too old, and
  // members beyond the scheme's bound.
  virtual std::uint64_t invalid() const = 0;
  // Valid messages since start() that say what cannot be true of the member that sent them: for
  // more receivers than it speaks for, or of packets that it cannot have. They have the effect of
  // what can be true, or none. No message is among invalid(), too.
  virtual std::uint64_t implausible() const { return 0; }
  // Whether data messages leave as ECT(0) instead of Not-ECT. True only if, with these settings,
  // the receivers respond to marks, because queues mark ECT packets where they drop others (RFC
  // 3168, 5). Constant.
  virtual bool ecn_capable() const { return false; }
  // Whether every receiver has the whole object. Always false for a scheme that is not reliable.
  virtual bool finished() const { return false; }
};

// Totals since start(), over all layers.
struct ReceiverCounters {
  int top = -1;                 // subscription level: highest joined rank, -1 = none
  std::uint64_t bytes = 0;      // IP bytes of valid data messages
  std::uint64_t packets = 0;    // valid data messages
  std::uint64_t lost = 0;       // by gaps in each layer's sequence numbers, while subscribed
  std::uint64_t marked = 0;     // packets with CE
  std::uint64_t invalid = 0;    // messages refused
  Rate rate;                    // the scheme's own estimate of the received rate
  std::uint64_t delivered = 0;  // reliable schemes: bytes of the object delivered
  bool complete = false;        // reliable schemes: the whole object was delivered
};

class ReceiverCore : public Core {
 public:
  // For the runtime's "received" records.
  virtual ReceiverCounters counters() const = 0;
};

struct SessionConfig {
  std::uint16_t session = 0;         // 0 .. 32767
  unsigned layers = 1;               // 1 .. kMaxLayers
  std::uint32_t packet_size = 1000;  // IP bytes of a data packet (session_config.h)
  std::uint32_t self_id = 0;  // unique among the session's members; names the source of feedback
  std::uint64_t seed = 1;
  Parameters parameters;  // made from the scheme's list of parameters
  // What the sender of a reliable scheme transfers; it must outlive the core. Empty: an endless
  // stream, whose payload is never read. Other schemes ignore it.
  std::span<const std::byte> object;
  // Senders: whose feedback is accepted (driver/feedback_sources.h). Null: anybody's.
  std::shared_ptr<const Members> members;
  // Receivers: the lie that this member tells (find_lie() of driver/lying_receiver.h); null: it is
  // honest.
  const Lie* lie = nullptr;
};

}  // namespace tiercast
