// One transmitting thread: a table of sessions, a transmit queue, and the rings to its neighbours.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/ring.h"
#include "dataplane/dpdk/tsc_clock.h"
#include "dataplane/sender/metrics/statistics.h"
#include "dataplane/sender/port/send_timestamp.h"
#include "dataplane/sender/sessions/session_table.h"

namespace tiercast::sender {

using dpdk::Port;
using dpdk::Ring;
using dpdk::TscClock;

// A command from the controlling thread, which owns the sessions. From kStart until a session comes
// back through `returned`, only the worker calls it.
struct Command {
  enum class Kind { kStart, kMembership, kStop } kind = Kind::kStart;
  Session* session = nullptr;
  int top_rank = -1;  // kMembership
};

// Frames that wait for a port's workers, in buffers of the port's pool. The workers share this
// number evenly.
inline constexpr std::size_t kFeedbackWaiting = 4096;

inline constexpr std::uint32_t kAnswer = 0xffffffff;

// Describes validated feedback. It is in the private area of the buffer with the feedback.
struct FeedbackNote {
  std::uint32_t slot;  // kAnswer: send the frame itself, an answer from the receiving side
  std::uint32_t from;
  std::uint32_t ip_length;
  std::uint16_t session;
  std::uint16_t message_at;  // from the start of the data
  std::uint16_t message_bytes;
  bool ce;
};

inline constexpr auto kFeedbackNoteBytes =
    static_cast<std::uint16_t>(RTE_ALIGN(sizeof(FeedbackNote), RTE_MBUF_PRIV_ALIGN));

// The running time of a task that repeats.
class RunningTime {
 public:
  void add(Duration time) {
    const std::int64_t difference = time.ns() - mean_ / kWeight;
    mean_ += difference;
    deviation_ += (difference < 0 ? -difference : difference) - deviation_ / kWeight;
  }
  // An upper bound that nearly always holds: the mean plus twice the mean deviation.
  Duration usual() const { return Duration::nanoseconds((mean_ + 2 * deviation_) / kWeight); }

 private:
  static constexpr std::int64_t kWeight = 16;
  std::int64_t mean_ = 0;  // both in 1/16 ns
  std::int64_t deviation_ = 0;
};

// A copy of what a core traced.
struct TraceRecord {
  static constexpr std::size_t kMaxFields = Contract::kMaxTraceFields;
  static constexpr std::size_t kNameBytes = 72;  // labs accept names of up to 64
  struct Field {
    std::array<char, kNameBytes> name;
    double value;
  };
  Time time;
  std::uint16_t session = 0;
  std::uint8_t fields = 0;
  std::array<char, kNameBytes> kind{};
  std::array<Field, kMaxFields> values;
};

class Worker final : private Outlet {
 public:
  struct Settings {
    SessionTable::Settings sessions;
    // What is due within this time of a burst's first packet belongs to the burst, which leaves
    // when its last packet is due.
    Duration quantum;
    unsigned lcore = 0;       // names its pool of buffers
    std::uint16_t queue = 0;  // transmit queue
    bool poll = false;
    // For a worker that also receives: delivers at most `limit` of the received frames and returns
    // how many.
    std::function<unsigned(Time, unsigned limit)> receive;
    std::size_t feedback_waiting = kFeedbackWaiting;  // room for so much that is delivered to it
    int receive_descriptor = -1;  // readable while frames wait, for a worker that sleeps
  };

  Worker(const Settings& settings, Port& port);
  ~Worker() override;

  // Runs the thread until `stop`, then processes all that was delivered. So the threads that
  // deliver and give orders must end first.
  void run(const std::atomic<bool>& stop);

  // The controlling thread's ends of the rings.
  bool order(const Command& command);
  Ring<Session*> returned{1 << 16};
  Ring<TraceRecord> records;
  // For the receiving thread: buffers with a FeedbackNote. Returns how many of them, from the first
  // on, found room.
  std::size_t deliver(std::span<rte_mbuf* const> feedback);
  // Wakes the worker if it sleeps.
  void wake();
  void set_link(bool up) { link_up_.store(up, std::memory_order_relaxed); }

  const SessionTable& sessions() const { return table_; }
  WorkerStatistics statistics() const;

 private:
  // On its way to the device, a departure goes through two stages: planned, while its layer's state
  // comes into the cache, and built, in a buffer. Both rings are short, because a session that
  // stops still sends what they hold.
  static constexpr unsigned kPlanned = 32;
  static constexpr unsigned kBuilt = Port::kBurst;
  static constexpr Duration kPlanAhead = Duration::nanoseconds(2000);  // besides the quantum
  static constexpr Duration kBuildAhead = Duration::nanoseconds(1000);
  // Overdue departures from which a batch pays off, and its size: few enough that their buffers
  // stay in the cache.
  static constexpr unsigned kBacklog = 8;
  static constexpr unsigned kPrefetch = 4;  // departures ahead for which a session's state is
                                            // prefetched
  // Chores are done when there is time, otherwise right after a hand-over. If there was something
  // to do, the next ones follow after kChoresSoon.
  static constexpr Duration kChores = Duration::microseconds(50);
  static constexpr Duration kChoresSoon = Duration::nanoseconds(500);
  static constexpr Duration kSpareTime = Duration::nanoseconds(300);
  static constexpr unsigned kFeedbackBatch = 16;  // most feedback messages processed in one turn
  // After this many turns without time for feedback, one message is processed anyway, because
  // congestion control must learn that a worker cannot keep up.
  static constexpr unsigned kFeedbackPatience = 4;

  void control(std::span<const std::byte> frame) override;
  void record(Time time, std::uint16_t session, std::string_view kind,
              std::span<const TraceField> fields) override;

  // The stages, the last one first.
  void hand_over(Time now);
  void plan(Time now);
  void build(Time now);
  unsigned allocate(std::span<rte_mbuf*> buffers);
  // When the burst that comes first is complete: the due time of its last packet. At least one
  // packet must be built.
  Time leaving() const;
  Time next_departure() const;
  void flush();           // hands over what is in the stages, each packet when it is due
  bool chores(Time now);  // a little of everything else; false if there was nothing to do
  Time rest(Time now);    // returns the time
  bool take_feedback();   // as much as departures leave time for; false if none waits
  bool next_feedback();   // whether feedback_batch_[feedback_next_] is there
  void hand_to_core(Time now, rte_mbuf* mbuf);
  void obey(const Command& command, Time now);
  void sleep(Time now);

  const Settings settings_;
  Port& port_;
  TscClock clock_;
  SessionTable table_;
  SendTimestamp timestamp_;
  rte_mempool* pool_ = nullptr;
  std::uint64_t offload_flags_ = 0;  // of every packet, as its two length fields
  std::uint64_t offload_lengths_ = 0;
  Ring<Command> commands_{1 << 16};
  Ring<rte_mbuf*> feedback_;
  // Feedback taken from the ring. It has been dealt with up to feedback_next_.
  std::array<rte_mbuf*, kFeedbackBatch> feedback_batch_{};
  unsigned feedback_count_ = 0;
  unsigned feedback_next_ = 0;
  unsigned feedback_passed_over_ = 0;  // turns in a row in which departures left no time
  RunningTime feedback_time_;          // time to process one message
  UniqueFd wakeup_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> link_up_{true};

  // Both are rings; the indices are never reduced.
  std::array<SessionTable::Departure, kPlanned> planned_;
  std::array<SessionTable::Departure, kBuilt> built_;
  std::array<rte_mbuf*, kBuilt> packets_{};
  unsigned first_planned_ = 0, end_planned_ = 0;
  unsigned first_built_ = 0, end_built_ = 0;
  Duration early_;  // how long before its due time a packet is handed to a device that waits itself
  Time next_sync_;
  Counter control_sent_, control_dropped_, behind_, trace_lost_;
  SharedHistogram late_, gap_error_;
};

}  // namespace tiercast::sender
