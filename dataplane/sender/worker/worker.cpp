#include "dataplane/sender/worker/worker.h"

#include <poll.h>
#include <rte_prefetch.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace tiercast::sender {
namespace {

constexpr unsigned kFrameBuffers = 4095;  // more than the device's ring and the pool's cache
constexpr unsigned kJumboBuffers = 2047;
// Between two calls of Sender::tend().
constexpr std::size_t kRecords = 4096;
constexpr std::size_t kRecordsOfOne = 512;
// The longest time that received frames wait if the driver cannot wake this thread.
constexpr Duration kPollInterval = Duration::milliseconds(1);
constexpr Duration kLongSleep = Duration::milliseconds(50);
// The time kept free after feedback to build a packet before its departure.
constexpr Duration kBuildTime = Duration::nanoseconds(150);
// Anything that took longer was interrupted.
constexpr Duration kLongFeedback = Duration::microseconds(5);

template <std::size_t N>
void copy_name(std::string_view name, std::array<char, N>& out) {
  const std::size_t n = std::min(name.size(), N - 1);
  std::memcpy(out.data(), name.data(), n);
  out[n] = '\0';
}

}  // namespace

Worker::Worker(const Settings& settings, Port& port)
    : records(!settings.sessions.records        ? 1
              : settings.sessions.sessions == 1 ? kRecordsOfOne
                                                : kRecords),
      settings_(settings),
      port_(port),
      table_(settings.sessions, *this),
      feedback_(settings.feedback_waiting),
      wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wakeup_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  const std::size_t frame = settings.sessions.largest_frame;
  pool_ = port.make_pool("worker-" + std::to_string(settings.lcore),
                         frame > 4096 ? kJumboBuffers : kFrameBuffers, frame);
  // Set up every buffer as SessionTable::write() expects it.
  const std::size_t header = table_.header_bytes();
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_)) {
    std::memcpy(rte_pktmbuf_mtod(mbuf, std::byte*) + header, pattern().data(),
                std::min(frame - header, pattern().size()));
    all.push_back(mbuf);
  }
  for (rte_mbuf* const mbuf : all) rte_pktmbuf_free(mbuf);
  const ChecksumOffload& offload = settings.sessions.offload;
  if (offload.ipv4 || offload.udp) {
    offload_flags_ = RTE_MBUF_F_TX_IPV4 | (offload.ipv4 ? RTE_MBUF_F_TX_IP_CKSUM : 0) |
                     (offload.udp ? RTE_MBUF_F_TX_UDP_CKSUM : 0);
    offload_lengths_ = rte_mbuf_tx_offload(header - wire::kIpv4Bytes - wire::kUdpBytes,
                                           wire::kIpv4Bytes, 0, 0, 0, 0, 0);
  }
  if (port.sends_on_timestamp()) {
    timestamp_ = SendTimestamp([&port](std::uint64_t& ticks) { return port.read_clock(ticks); },
                               [this] { return clock_.now(); });
    if (timestamp_.on()) early_ = SendTimestamp::kLead;
  }
}

Worker::~Worker() {
  while (next_feedback()) rte_pktmbuf_free(feedback_batch_[feedback_next_++]);
}

bool Worker::order(const Command& command) {
  const bool pushed = commands_.push(command);
  wake();
  return pushed;
}

std::size_t Worker::deliver(std::span<rte_mbuf* const> feedback) {
  const std::size_t delivered = feedback_.push(feedback);
  if (!settings_.receive) wake();  // otherwise this is that thread
  return delivered;
}

void Worker::wake() {
  if (!asleep_.exchange(false, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof one);
}

// Each turn hands over what is due, plans what comes next, and builds one packet before its
// departure. A worker that is on time sends one packet a turn; a late one sends up to a ring of
// them. If there is nothing to prepare, the worker only watches the clock until the next departure.
void Worker::run(const std::atomic<bool>& stop) {
  prctl(PR_SET_TIMERSLACK, 1ul);  // in ns; applies to this thread
  Time now = clock_.now();
  Time next_chores = now;
  next_sync_ = now;
  while (!stop.load(std::memory_order_relaxed)) {
    hand_over(now);
    plan(now);
    build(now);
    if (now >= next_chores) {
      next_chores = now + (chores(now) ? kChoresSoon : kChores);
      now = clock_.now();
    } else {
      now = first_planned_ == end_planned_ ? rest(now) : clock_.now();
    }
  }
  flush();
  unsigned polls = settings_.receive ? Port::kLastPolls : 0;
  do {
    while (next_feedback()) hand_to_core(clock_.now(), feedback_batch_[feedback_next_++]);
  } while (polls-- > 0 && settings_.receive(clock_.now(), Port::kBurst) > 0);
  table_.publish();
}

void Worker::flush() {
  while (first_planned_ != end_planned_ || first_built_ != end_built_) {
    const Time now = clock_.now();
    hand_over(now);
    build(now);
  }
}

// There is nothing to prepare: wait for a departure that is near, otherwise use the time.
Time Worker::rest(Time now) {
  if (first_built_ != end_built_) {
    const Time due = leaving() - early_;
    if (due < now + kSpareTime) {
      do {
        now = clock_.now();
      } while (now < due);
      return now;
    }
  }
  if (!chores(now) && first_planned_ == end_planned_ && first_built_ == end_built_) {
    if (settings_.poll) {
      table_.prepare();
    } else {
      sleep(now);
    }
  }
  return clock_.now();
}

void Worker::plan(Time now) {
  const Time leaving = now + early_;
  const Time until = leaving + settings_.quantum + kPlanAhead;
  std::size_t room = kPlanned - (end_planned_ - first_planned_);
  while (room > 0) {
    const unsigned at = end_planned_ % kPlanned;
    const auto free = std::span(planned_).subspan(at, std::min<std::size_t>(room, kPlanned - at));
    const std::size_t count = table_.pop(leaving, until, free);
    for (const SessionTable::Departure& planned : free.first(count)) table_.prefetch(planned.layer);
    end_planned_ += static_cast<unsigned>(count);
    room -= count;
    if (count < free.size()) return;
  }
}

// Builds what belongs to one burst, or a batch if the backlog is long.
void Worker::build(Time now) {
  const unsigned waiting = end_planned_ - first_planned_;
  if (waiting == 0) return;
  const Time leaving = now + early_;
  const Time first = planned_[first_planned_ % kPlanned].due;
  if (first > leaving + kBuildAhead) return;
  unsigned most = std::min(waiting, kBuilt - (end_built_ - first_built_));
  Time last = first + settings_.quantum;
  if (waiting >= kBacklog && last < leaving) {
    last = leaving;
    most = std::min(most, kBacklog);
  }
  unsigned count = 0;
  while (count < most && planned_[(first_planned_ + count) % kPlanned].due <= last) ++count;

  std::array<rte_mbuf*, kBuilt> buffers;
  std::array<SessionTable::Frame, kBuilt> frames;
  const unsigned allocated = allocate(std::span(buffers).first(count));
  unsigned built = end_built_;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned at = first_planned_ + i;
    if (waiting - i > kPrefetch) {
      table_.prefetch_session(planned_[(at + kPrefetch) % kPlanned].layer);
    }
    const SessionTable::Departure& departure = planned_[at % kPlanned];
    if (i >= allocated) {
      table_.dropped(departure.layer, false);
      continue;
    }
    rte_mbuf* const mbuf = buffers[i];
    const SessionTable::Frame frame = table_.write(departure.layer, std::max(departure.due, now),
                                                   rte_pktmbuf_mtod(mbuf, std::byte*));
    if (frame.bytes == 0) {
      rte_pktmbuf_free(mbuf);
      continue;
    }
    mbuf->data_len = static_cast<std::uint16_t>(frame.bytes);
    mbuf->pkt_len = static_cast<std::uint32_t>(frame.bytes);
    mbuf->ol_flags = offload_flags_;
    if (offload_flags_ != 0) mbuf->tx_offload = offload_lengths_;
    if (timestamp_.on()) timestamp_.mark(mbuf, departure.due);
    packets_[built % kBuilt] = mbuf;
    frames[built % kBuilt] = frame;
    built_[built % kBuilt] = departure;
    ++built;
  }
  for (unsigned i = end_built_; i != built; ++i) {
    table_.finish(built_[i % kBuilt].layer, frames[i % kBuilt],
                  rte_pktmbuf_mtod(packets_[i % kBuilt], std::byte*));
  }
  first_planned_ += count;
  end_built_ = built;
}

// Returns how many of the buffers, from the first on, there were. Every buffer of the pool is as
// the constructor left it, except for what build() writes and what drivers may change.
unsigned Worker::allocate(std::span<rte_mbuf*> buffers) {
  auto** const objects = reinterpret_cast<void**>(buffers.data());
  auto count = static_cast<unsigned>(buffers.size());
  if (rte_mempool_get_bulk(pool_, objects, count) != 0) {
    count = 0;
    while (count < buffers.size() && rte_mempool_get(pool_, objects + count) == 0) ++count;
  }
  for (rte_mbuf* const mbuf : buffers.first(count)) mbuf->data_off = RTE_PKTMBUF_HEADROOM;
  return count;
}

Time Worker::leaving() const {
  const Time first = built_[first_built_ % kBuilt].due;
  Time last = first;
  for (unsigned i = first_built_ + 1; i != end_built_; ++i) {
    const Time due = built_[i % kBuilt].due;
    if (due > first + settings_.quantum) break;
    last = std::max(last, due);
  }
  return last;
}

// Hands over all that is due, once the first burst is complete: in one driver call, or two where
// the ring wraps.
void Worker::hand_over(Time now) {
  if (first_built_ == end_built_ || leaving() > now + early_) return;
  unsigned end = first_built_;
  while (end != end_built_ && built_[end % kBuilt].due <= now + early_) ++end;
  while (first_built_ != end) {
    const unsigned first = first_built_ % kBuilt;
    const unsigned count = std::min(end - first_built_, kBuilt - first);
    unsigned sent = 0;
    if (link_up_.load(std::memory_order_relaxed)) {
      sent = port_.transmit_burst(settings_.queue, &packets_[first], count);
    }
    table_.sent(std::span(built_).subspan(first, sent));
    for (unsigned i = first + sent; i < first + count; ++i) {
      table_.dropped(built_[i].layer, true);
      rte_pktmbuf_free(packets_[i]);
    }
    for (unsigned i = first; i < first + count; ++i) {
      const std::int64_t late_ns = (now - built_[i].due).ns();
      late_.add(late_ns);
      if (const auto error = table_.gap_error(built_[i].layer, now)) {
        gap_error_.add(std::abs(error->ns()));
      }
      if (late_ns > kBehind.ns()) behind_.add();
    }
    first_built_ += count;
  }
}

bool Worker::chores(Time now) {
  bool busy = table_.run_timer(now);
  Command command;
  if (commands_.pop(command)) {
    obey(command, now);
    busy = true;
  }
  busy |= take_feedback();
  table_.publish();
  if (now >= next_sync_) {
    clock_.sync();
    if (timestamp_.on()) timestamp_.sync(clock_.now());
    next_sync_ = now + Duration::milliseconds(1000);
  }
  return busy;
}

// Processes feedback between departures, as long as one more message would be done before the next
// packet must be built.
bool Worker::take_feedback() {
  Time now = clock_.now();
  for (unsigned n = 0; n < kFeedbackBatch; ++n) {
    if (next_departure() < now + kBuildTime + feedback_time_.usual()) {
      if (n > 0) return true;
      if (feedback_passed_over_ < kFeedbackPatience) {
        ++feedback_passed_over_;
        return next_feedback();
      }
    }
    if (!next_feedback() && !(settings_.receive && settings_.receive(now, 1) > 0)) return n > 0;
    // The received frame may not have been feedback.
    if (next_feedback()) hand_to_core(now, feedback_batch_[feedback_next_++]);
    feedback_passed_over_ = 0;
    const Time end = clock_.now();
    feedback_time_.add(std::min(end - now, kLongFeedback));
    now = end;
  }
  return true;
}

// Of the next packet, whether it is built or not.
Time Worker::next_departure() const {
  if (first_built_ != end_built_) return leaving() - early_;
  if (first_planned_ != end_planned_) return planned_[first_planned_ % kPlanned].due - early_;
  return table_.next_departure();
}

bool Worker::next_feedback() {
  if (feedback_next_ < feedback_count_) return true;
  feedback_next_ = 0;
  feedback_count_ = static_cast<unsigned>(feedback_.pop(std::span(feedback_batch_)));
  // Another CPU core wrote them. The data starts where drivers put it by default.
  for (unsigned i = 0; i < feedback_count_; ++i) {
    auto* const start = reinterpret_cast<std::byte*>(feedback_batch_[i]);
    rte_prefetch0(start);
    rte_prefetch0(start + sizeof(rte_mbuf));
    rte_prefetch0(start + sizeof(rte_mbuf) + kFeedbackNoteBytes + RTE_PKTMBUF_HEADROOM +
                  wire::kEthernetBytes);
  }
  return feedback_count_ > 0;
}

void Worker::hand_to_core(Time now, rte_mbuf* mbuf) {
  const auto* const note = static_cast<const FeedbackNote*>(rte_mbuf_to_priv(mbuf));
  if (note->slot == kAnswer) {
    const bool sent = link_up_.load(std::memory_order_relaxed) &&
                      port_.transmit_burst(settings_.queue, &mbuf, 1) == 1;
    (sent ? control_sent_ : control_dropped_).add();
    if (!sent) rte_pktmbuf_free(mbuf);
  } else {
    const std::span<const std::byte> message(
        rte_pktmbuf_mtod(mbuf, const std::byte*) + note->message_at, note->message_bytes);
    table_.receive(now, note->slot, note->session,
                   {message, note->ip_length, note->ce, note->from});
    rte_pktmbuf_free(mbuf);
  }
}

void Worker::obey(const Command& command, Time now) {
  switch (command.kind) {
    case Command::Kind::kStart: table_.start(now, *command.session); break;
    case Command::Kind::kMembership:
      table_.set_membership(now, *command.session, command.top_rank);
      break;
    case Command::Kind::kStop:
      // Send the built packets first, so that the counts of their layers are final after this.
      flush();
      table_.stop(now, *command.session);
      returned.push(command.session);
      break;
  }
}

void Worker::sleep(Time now) {
  Time until = std::min(table_.next_deadline(), now + kLongSleep);
  const int descriptor = settings_.receive_descriptor;
  if (settings_.receive && descriptor < 0) until = std::min(until, now + kPollInterval);
  const Duration wait = until - clock_.now();
  if (wait <= Duration::zero()) {
    table_.prepare();
    return;
  }
  // Either this exchange or wake()'s comes first: either wake() finds the worker asleep, or the
  // worker sees here what was pushed before.
  asleep_.exchange(true, std::memory_order_acq_rel);
  if (commands_.empty() && feedback_.empty()) {
    pollfd sources[2] = {{wakeup_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}};
    const timespec timeout{wait.ns() / 1'000'000'000, wait.ns() % 1'000'000'000};
    ppoll(sources, 2, &timeout, nullptr);
  }
  asleep_.exchange(false, std::memory_order_acq_rel);
  std::uint64_t drained;
  [[maybe_unused]] const ssize_t n = read(wakeup_.get(), &drained, sizeof drained);
}

void Worker::control(std::span<const std::byte> frame) {
  rte_mbuf* mbuf = link_up_.load(std::memory_order_relaxed) ? port_.allocate_buffer() : nullptr;
  std::byte* const start = mbuf == nullptr ? nullptr
                                           : reinterpret_cast<std::byte*>(rte_pktmbuf_append(
                                                 mbuf, static_cast<std::uint16_t>(frame.size())));
  bool sent = false;
  if (start != nullptr) {
    std::copy(frame.begin(), frame.end(), start);
    sent = port_.transmit_burst(settings_.queue, &mbuf, 1) == 1;
  }
  if (!sent && mbuf != nullptr) rte_pktmbuf_free(mbuf);
  (sent ? control_sent_ : control_dropped_).add();
}

void Worker::record(Time time, std::uint16_t session, std::string_view kind,
                    std::span<const TraceField> fields) {
  TraceRecord record;
  record.time = time;
  record.session = session;
  record.fields = static_cast<std::uint8_t>(std::min(fields.size(), TraceRecord::kMaxFields));
  copy_name(kind, record.kind);
  for (std::size_t i = 0; i < record.fields; ++i) {
    copy_name(fields[i].name, record.values[i].name);
    record.values[i].value = fields[i].value;
  }
  if (!records.push(record)) trace_lost_.add();
}

WorkerStatistics Worker::statistics() const {
  WorkerStatistics out;
  out.lcore = settings_.lcore;
  table_.read(out);
  out.control_sent = control_sent_.get();
  out.control_dropped = control_dropped_.get();
  out.behind = behind_.get();
  out.trace_lost = trace_lost_.get();
  out.late = late_.read();
  out.gap_error = gap_error_.read();
  return out;
}

}  // namespace tiercast::sender
