// Measures a DPDK sender from outside, the same way for every program. Preloaded
// (LD_PRELOAD=libtiercast-far-end.so), it stands between the program and DPDK.
//
//   record   writes the TSC at each hand-over of a packet to the driver, and the packet's group,
//            into a mapped file; the sending thread itself does this
//   ring     gives the program a device "net_ring_far". A thread of this library holds its far end:
//            it takes what the program sends (and can stop taking for a while), and hands it frames
//            at a given rate
//
// TIERCAST_FAR_END holds the settings as NAME=VALUE, separated by commas:
//   record=FILE,count=N     records up to N hand-overs, only of multicast data; FILE should be on
//                           tmpfs
//   skip=SECONDS            starts the record this long after the start of the run
//   ring=QUEUES             descriptors=N sets the ring's size, a power of two (default 4096)
//   cpu=N                   the CPU of the far end's thread
//   frames=FILE,rate=PPS    hands over these frames in turn; FILE has each as a big-endian 16-bit
//                           length and its bytes. Without `ring` the frames arrive at that rate in
//                           a receive ring of `descriptors`, whatever device the program has. They
//                           are made by the thread that polls the ring, when it polls, so that no
//                           other thread needs a core for it
//   from=SECONDS,until=SECONDS              when it does this (default: always)
//   stall_after=PACKETS,stall_for=SECONDS   after taking so many packets, takes nothing for a while
//   arrivals=FILE           a second record: what the ring's far end took, and when
//   report=FILE             the counts as JSON, at the end: taken, left (sent and never taken),
//                           offered, refused (no room for them), unread (never taken by the
//                           program), and handed: for each frame, how often the program took it.
//                           Without `ring` the first two are 0
// A record's file: RecordHeader, `capacity` TSC values of 64 bits, `capacity` groups of 32 bits.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_ring.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace tiercast::bench {
namespace {

constexpr unsigned kBurst = 32;
constexpr unsigned kFeedbackBuffers = 16383;
// The private area of a received frame: the largest that a program here needs.
constexpr std::uint16_t kPrivateBytes = 64;
constexpr unsigned kDefaultDescriptors = 4096;
constexpr std::size_t kDestinationAt = 30;  // in an IPv4 frame without a VLAN tag
constexpr std::size_t kVlanBytes = 4;
constexpr double kForever = 1e9;

// The start of a record's file, in host byte order. `count`, and the members whose names begin with
// `end`, are written when the device is stopped.
struct RecordHeader {
  std::uint64_t tsc_hz;
  std::uint64_t capacity;
  std::uint64_t count;
  std::uint64_t start_tsc;
  std::int64_t start_monotonic_ns;  // CLOCK_MONOTONIC at start_tsc
  std::uint64_t end_tsc;
  std::int64_t end_monotonic_ns;
};

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "far end: {}\n", what);
  std::_Exit(2);
}

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

class Settings {
 public:
  Settings() {
    const char* text = std::getenv("TIERCAST_FAR_END");
    std::string rest = text == nullptr ? "" : text;
    for (std::size_t at = 0; at < rest.size();) {
      const std::size_t end = std::min(rest.find(',', at), rest.size());
      const std::string one = rest.substr(at, end - at);
      const std::size_t equals = one.find('=');
      if (equals == std::string::npos) fail("TIERCAST_FAR_END: '" + one + "' is not NAME=VALUE");
      values_[one.substr(0, equals)] = one.substr(equals + 1);
      at = end + 1;
    }
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
  }
  double number(const std::string& name, double otherwise) const {
    if (!has(name)) return otherwise;
    char* end = nullptr;
    const std::string value = text(name);
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0') fail(name + "=" + value + " is not a number");
    return number;
  }

 private:
  std::map<std::string, std::string> values_;
};

const Settings& settings() {
  static const Settings all;
  return all;
}

class Record {
 public:
  Record(const std::string& path, std::size_t capacity) : capacity_(capacity) {
    const std::size_t bytes = sizeof(RecordHeader) + capacity * (8 + 4);
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
      fail(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
    if (memory == MAP_FAILED) fail(fmt::format("mapping {}: {}", path, std::strerror(errno)));
    header_ = static_cast<RecordHeader*>(memory);
    stamps_ = reinterpret_cast<std::uint64_t*>(header_ + 1);
    groups_ = reinterpret_cast<std::uint32_t*>(stamps_ + capacity);
    header_->capacity = capacity;
    header_->tsc_hz = rte_get_tsc_hz();
  }

  // Reads both clocks together, so that an instant of one can be found on the other.
  void begin(std::uint64_t first) {
    first_ = first;
    header_->start_tsc = rte_rdtsc();
    header_->start_monotonic_ns = monotonic_ns();
  }

  // Called by one thread. With several transmit queues the order would be the threads' own, so a
  // record covers one queue.
  void add(std::uint64_t now, rte_mbuf* const* frames, unsigned count) {
    if (now < first_) return;
    for (unsigned i = 0; i < count && count_ < capacity_; ++i) {
      const auto* bytes = rte_pktmbuf_mtod(frames[i], const unsigned char*);
      if (bytes[0] != 0x01) continue;  // not sent to a group
      const std::size_t at = kDestinationAt + (bytes[12] == 0x81 ? kVlanBytes : 0);
      std::uint32_t group = 0;
      std::memcpy(&group, bytes + at, sizeof group);
      stamps_[count_] = now;
      groups_[count_++] = __builtin_bswap32(group);
    }
  }

  void end() {
    header_->count = count_;
    header_->end_tsc = rte_rdtsc();
    header_->end_monotonic_ns = monotonic_ns();
  }

 private:
  const std::size_t capacity_;
  std::size_t count_ = 0;
  std::uint64_t first_ = 0;
  RecordHeader* header_;
  std::uint64_t* stamps_;
  std::uint32_t* groups_;
};

std::uint16_t on_transmit(std::uint16_t, std::uint16_t, rte_mbuf** frames, std::uint16_t count,
                          void* record) {
  static_cast<Record*>(record)->add(rte_rdtsc(), frames, count);
  return count;
}

std::unique_ptr<Record> record;
std::unique_ptr<Record> arrivals;

std::unique_ptr<Record> open_record(const std::string& name) {
  if (!settings().has(name)) return nullptr;
  return std::make_unique<Record>(settings().text(name),
                                  static_cast<std::size_t>(settings().number("count", 1e6)));
}

std::vector<std::string> read_frames(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> frames;
  for (std::size_t at = 0; at + 2 <= bytes.size();) {
    const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[at])) << 8 |
                        static_cast<unsigned char>(bytes[at + 1]);
    frames.push_back(bytes.substr(at + 2, length));
    if (length == 0 || frames.back().size() != length) fail(path + ": a frame is cut off");
    at += 2 + length;
  }
  if (frames.empty()) fail(path + ": no frames");
  return frames;
}

rte_mempool* make_pool() {
  rte_mempool* const pool = rte_pktmbuf_pool_create("far end", kFeedbackBuffers, 256, kPrivateBytes,
                                                    RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) fail("no memory for its frames (-m gives the EAL more MB)");
  return pool;
}

std::string report_of(std::uint64_t taken, std::uint64_t left, std::uint64_t offered,
                      std::uint64_t refused, std::uint64_t unread,
                      const std::vector<std::uint64_t>& handed) {
  return fmt::format(R"({{"taken": {}, "left": {}, "offered": {}, "refused": {}, "unread": {}, )"
                     R"("handed": [{}]}})"
                     "\n",
                     taken, left, offered, refused, unread, fmt::join(handed, ", "));
}

// A receive ring into which frames arrive at a rate. The thread that polls the ring plays their
// source. Frames that find it full are refused.
class Arriving {
 public:
  Arriving()
      : frames_(read_frames(settings().text("frames"))),
        descriptors_(
            static_cast<std::uint64_t>(settings().number("descriptors", kDefaultDescriptors))),
        handed_(frames_.size()) {}

  void start(std::uint16_t port) {
    pool_ = make_pool();
    const auto hz = static_cast<double>(rte_get_tsc_hz());
    const auto now = static_cast<double>(rte_rdtsc());
    from_ = now + settings().number("from", 0) * hz;
    until_ = now + settings().number("until", kForever) * hz;
    per_cycle_ = settings().number("rate", 1e6) / hz;
    if (rte_eth_add_rx_callback(port, 0, on_receive, this) == nullptr) {
      fail("cannot put a ring in front of the device's receive queue");
    }
  }

  std::string report() {
    arrive();
    return report_of(0, 0, offered_, refused_, waiting_, handed_);
  }

 private:
  static std::uint16_t on_receive(std::uint16_t, std::uint16_t, rte_mbuf** frames,
                                  std::uint16_t count, std::uint16_t room, void* self) {
    return static_cast<Arriving*>(self)->fill(frames, count, room);
  }

  void arrive() {
    const double now = std::min(static_cast<double>(rte_rdtsc()), until_);
    const auto all = static_cast<std::uint64_t>(std::max(now - from_, 0.0) * per_cycle_);
    const std::uint64_t fit = std::min(all - offered_, descriptors_ - waiting_);
    refused_ += all - offered_ - fit;
    waiting_ += fit;
    offered_ = all;
  }

  std::uint16_t fill(rte_mbuf** out, std::uint16_t count, std::uint16_t room) {
    arrive();
    const auto n = static_cast<unsigned>(
        std::min<std::uint64_t>(waiting_, static_cast<std::uint64_t>(room - count)));
    if (n == 0 || rte_pktmbuf_alloc_bulk(pool_, out + count, n) != 0) return count;
    waiting_ -= n;
    for (unsigned i = 0; i < n; ++i) {
      const std::string& bytes = frames_[next_];
      std::memcpy(rte_pktmbuf_append(out[count + i], static_cast<std::uint16_t>(bytes.size())),
                  bytes.data(), bytes.size());
      ++handed_[next_];
      next_ = next_ + 1 == frames_.size() ? 0 : next_ + 1;
    }
    return static_cast<std::uint16_t>(count + n);
  }

  const std::vector<std::string> frames_;
  const std::uint64_t descriptors_;
  rte_mempool* pool_ = nullptr;
  double from_ = 0, until_ = 0, per_cycle_ = 0;  // in cycles; per_cycle_: frames per cycle
  std::uint64_t offered_ = 0, refused_ = 0, waiting_ = 0;
  std::size_t next_ = 0;
  std::vector<std::uint64_t> handed_;
};

// The thread at the far end of the rings.
class FarEnd {
 public:
  explicit FarEnd(unsigned queues) {
    const auto size = static_cast<unsigned>(settings().number("descriptors", kDefaultDescriptors));
    for (unsigned queue = 0; queue < queues; ++queue) {
      to_program_.push_back(make_ring(fmt::format("far_rx{}", queue), size));
      from_program_.push_back(make_ring(fmt::format("far_tx{}", queue), size));
    }
    if (rte_eth_from_rings("net_ring_far", to_program_.data(), queues, from_program_.data(), queues,
                           0) < 0) {
      fail(fmt::format("no ring device: {}", rte_strerror(rte_errno)));
    }
    if (settings().has("frames")) frames_ = read_frames(settings().text("frames"));
    handed_.resize(frames_.size());
  }

  void start() {
    if (!frames_.empty()) pool_ = make_pool();
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    thread_.join();
  }

  std::string report() const {
    return report_of(taken_, left_, offered_, refused_, unread_, handed_);
  }

 private:
  static rte_ring* make_ring(const std::string& name, unsigned size) {
    rte_ring* ring = rte_ring_create(name.c_str(), size, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (ring == nullptr) fail(fmt::format("ring {}: {}", name, rte_strerror(rte_errno)));
    return ring;
  }

  void run() {
    rte_thread_register();
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<unsigned>(settings().number("cpu", 0)), &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);

    const auto hz = static_cast<double>(rte_get_tsc_hz());
    const std::uint64_t start = rte_rdtsc();
    const auto instant = [&](const char* name, double otherwise) {
      return start + static_cast<std::uint64_t>(settings().number(name, otherwise) * hz);
    };
    const auto stall_after =
        static_cast<std::uint64_t>(settings().number("stall_after", kForever * kForever));
    const auto stall_cycles =
        static_cast<std::uint64_t>(settings().number("stall_for", kForever) * hz);
    std::uint64_t resume = 0;  // 0: has not stalled yet
    const std::uint64_t from = instant("from", 0), until = instant("until", kForever);
    const double interval = hz / settings().number("rate", 1e6);
    double due = static_cast<double>(from);
    while (!stopping_) {
      const std::uint64_t now = rte_rdtsc();
      if (resume == 0 && taken_ >= stall_after) resume = now + stall_cycles;
      if (now >= resume) take();
      if (!frames_.empty() && now >= from && now < until) {
        // A far end that was late does not catch up in one burst.
        if (static_cast<double>(now) - due > hz / 1000) due = static_cast<double>(now);
        for (unsigned n = 0; n < kBurst && due <= static_cast<double>(now); ++n, due += interval) {
          offer();
        }
      }
    }
    if (rte_rdtsc() >= resume) take();
    for (rte_ring* ring : from_program_) left_ += rte_ring_count(ring);
    take_back();
  }

  void take() {
    for (rte_ring* ring : from_program_) {
      void* frames[kBurst];
      unsigned count = 0;
      do {
        count = rte_ring_sc_dequeue_burst(ring, frames, kBurst, nullptr);
        if (arrivals != nullptr) {
          arrivals->add(rte_rdtsc(), reinterpret_cast<rte_mbuf**>(frames), count);
        }
        rte_pktmbuf_free_bulk(reinterpret_cast<rte_mbuf**>(frames), count);
        taken_ += count;
      } while (count == kBurst && stopping_);
    }
  }

  // Counts what the program never took, after it has stopped receiving.
  void take_back() {
    for (rte_ring* ring : to_program_) {
      void* frame = nullptr;
      while (rte_ring_sc_dequeue(ring, &frame) == 0) {
        auto* const mbuf = static_cast<rte_mbuf*>(frame);
        --handed_[mbuf->hash.usr];
        ++unread_;
        rte_pktmbuf_free(mbuf);
      }
    }
  }

  void offer() {
    const auto kind = static_cast<std::uint32_t>(++offered_ % frames_.size());
    const std::string& bytes = frames_[kind];
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr) {
      ++refused_;
      return;
    }
    frame->hash.usr = kind;
    std::memcpy(rte_pktmbuf_append(frame, static_cast<std::uint16_t>(bytes.size())), bytes.data(),
                bytes.size());
    if (rte_ring_sp_enqueue(to_program_[offered_ % to_program_.size()], frame) != 0) {
      ++refused_;
      rte_pktmbuf_free(frame);
      return;
    }
    ++handed_[kind];
  }

  std::vector<rte_ring*> to_program_, from_program_;
  std::vector<std::string> frames_;
  rte_mempool* pool_ = nullptr;
  std::thread thread_;
  std::atomic<bool> stopping_ = false;
  std::uint64_t taken_ = 0;    // frames sent by the program
  std::uint64_t offered_ = 0;  // frames offered to the program
  std::uint64_t refused_ = 0;  // of those offered: there was no room
  std::uint64_t unread_ = 0;   // of those offered: the program never took them from its ring
  std::vector<std::uint64_t> handed_;  // by frame: how often the program took it
  std::uint64_t left_ = 0;             // sent by the program and never taken
};

std::unique_ptr<FarEnd> far_end;
std::unique_ptr<Arriving> arriving;

// DPDK's own function with this name.
template <typename Function>
Function* real(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  if (found == nullptr) fail(fmt::format("{} is not in a shared library of the program", name));
  return found;
}

void started(std::uint16_t port) {
  const std::uint64_t first =
      rte_rdtsc() + static_cast<std::uint64_t>(settings().number("skip", 0) *
                                               static_cast<double>(rte_get_tsc_hz()));
  if (arrivals) arrivals->begin(first);
  if (record) {
    rte_eth_dev_info info{};
    rte_eth_dev_info_get(port, &info);
    for (std::uint16_t queue = 0; queue < info.nb_tx_queues; ++queue) {
      rte_eth_add_tx_callback(port, queue, on_transmit, record.get());
    }
    record->begin(first);
  }
  if (far_end) far_end->start();
  if (arriving) arriving->start(port);
}

void stopped() {
  if (record) record->end();
  if (far_end) far_end->stop();
  if (arrivals) arrivals->end();
  if (!settings().has("report") || (!far_end && !arriving)) return;
  std::ofstream(settings().text("report")) << (far_end ? far_end->report() : arriving->report());
}

}  // namespace
}  // namespace tiercast::bench

extern "C" {

int rte_eal_init(int argc, char** argv) {
  using namespace tiercast::bench;
  const int used = real<int(int, char**)>("rte_eal_init")(argc, argv);
  if (used < 0) return used;
  if (settings().has("ring")) {
    far_end = std::make_unique<FarEnd>(static_cast<unsigned>(settings().number("ring", 1)));
  } else if (settings().has("frames")) {
    arriving = std::make_unique<Arriving>();
  }
  record = open_record("record");
  arrivals = open_record("arrivals");
  return used;
}

int rte_eth_dev_start(uint16_t port) {
  using namespace tiercast::bench;
  const int result = real<int(std::uint16_t)>("rte_eth_dev_start")(port);
  if (result == 0) started(port);
  return result;
}

int rte_eth_dev_stop(uint16_t port) {
  using namespace tiercast::bench;
  stopped();
  return real<int(std::uint16_t)>("rte_eth_dev_stop")(port);
}
}
