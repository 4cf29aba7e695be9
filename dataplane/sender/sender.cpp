#include "dataplane/sender/sender.h"

#include <fmt/format.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "agent/clock.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/sender/worker/feedback_receiver.h"
#include "dataplane/sender/worker/worker.h"

namespace tiercast::sender {
namespace {

constexpr Duration kReceiveSleep = Duration::milliseconds(1);
constexpr Duration kEndTimeout = Duration::milliseconds(2000);
constexpr auto kEndPoll = std::chrono::microseconds(50);

bool share_cpus(unsigned lcore, const std::vector<unsigned>& others) {
  const rte_cpuset_t own = rte_lcore_cpuset(lcore);
  return std::any_of(others.begin(), others.end(), [&own](unsigned other) {
    const rte_cpuset_t set = rte_lcore_cpuset(other);
    rte_cpuset_t common;
    CPU_AND(&common, &own, &set);
    return CPU_COUNT(&common) > 0;
  });
}

// A sleeping worker never keeps the processor for long. One that has always something to receive
// does not sleep: it takes turns with the main thread. If the priority is not permitted, the main
// thread has already said so (agent/run.h).
void raise_priority(int realtime) {
  if (realtime == 0) return;
  sched_param parameter{};
  parameter.sched_priority = realtime;
  pthread_setschedparam(pthread_self(), SCHED_RR, &parameter);
}

}  // namespace

struct Sender::State {
  struct Running {
    std::unique_ptr<Session> session;
    unsigned worker = 0;
    bool stopping = false;
  };

  // A port, and what its workers share.
  struct Side {
    explicit Side(const SenderPort& given)
        : port(*given.port),
          addresses(given.addresses),
          gateway(addresses.own, addresses.gateway_ip, addresses.gateway) {}

    Port& port;
    SenderAddresses addresses;
    Neighbour gateway;
    std::unique_ptr<FeedbackReceiver> receiver;
    std::atomic<bool> link_up{true};
    std::atomic<std::uint64_t> missed{0};  // as of the last tend()
  };

  SenderSettings options;
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<unsigned> lcores;
  // Whether a thread on the main lcore receives, beside the workers. (Do not use rte_lcore_count()
  // for this: it counts registered threads too, so it grows while they start.)
  bool own_receiver;
  std::vector<std::unique_ptr<PayloadSource>> payloads;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;  // the workers'
  std::thread receiving;
  std::atomic<bool> stop{false};
  std::atomic<bool> stop_receiving{false};
  std::atomic<bool> failed{false};
  std::atomic_flag fails;  // set by the first thread that fails, which writes `failure`
  std::string failure;     // valid once `failed`

  mutable std::mutex mutex;  // guards the members below: the controlling side
  std::map<std::uint16_t, Running> sessions;
  std::vector<std::vector<std::uint32_t>> free_slots;  // of each worker's table
  std::vector<std::size_t> layers;                     // of each worker's sessions
  std::vector<LayerStatistics> ended;

  State(const SenderSettings& o, const std::vector<SenderPort>& ports)
      : options(o),
        lcores(dpdk::Eal::worker_lcores()),
        own_receiver(lcores.front() != rte_get_main_lcore()) {
    for (const SenderPort& port : ports) sides.push_back(std::make_unique<Side>(port));
    if (lcores.size() < sides.size()) {
      throw ConfigError(fmt::format(
          "{} ports need {} lcores, one that receives and one for each port; the EAL arguments "
          "give {}: -l 0-{}, or, with CPUs in common, --lcores '(0-{})@0'",
          sides.size(), sides.size() + 1, lcores.size() + (own_receiver ? 1 : 0), sides.size(),
          sides.size()));
    }
  }

  std::size_t side_of(unsigned worker) const { return worker % sides.size(); }
  FeedbackReceiver& receiver_of(unsigned worker) { return *sides[side_of(worker)]->receiver; }

  Running& find(std::uint16_t number) {
    const auto it = sessions.find(number);
    if (it == sessions.end() || it->second.stopping) {
      throw ConfigError(fmt::format("no session {} runs here", number));
    }
    return it->second;
  }

  void order(unsigned worker, const Command& command) {
    while (!workers[worker]->order(command) && !failed) std::this_thread::yield();
  }

  // With the mutex held: why these sessions cannot start, or "" if they can. `ending`: they can
  // start once those that are ending have ended.
  std::string obstacle(const std::vector<SessionRequest>& requests, bool& ending) const {
    std::set<std::uint16_t> numbers;
    std::size_t in_the_way = 0;
    for (const SessionRequest& request : requests) {
      const std::uint16_t number = request.config.session;
      const auto found = sessions.find(number);
      const bool runs = found != sessions.end() && !found->second.stopping;
      if (!numbers.insert(number).second || runs) {
        ending = false;
        return fmt::format("session {} is running already", number);
      }
      if (found != sessions.end()) ++in_the_way;
      if (!request.port.empty() && side_named(request.port) == sides.size()) {
        ending = false;
        std::vector<std::string> names;
        for (const auto& side : sides) names.push_back(side->port.device());
        return fmt::format("session {}: this sender has no port '{}'; valid: {}", number,
                           request.port, fmt::join(names, ", "));
      }
    }
    // Each port's workers together have slots for all sessions that may run.
    const std::size_t room = options.session_capacity - sessions.size();
    if (in_the_way == 0 && room >= requests.size()) return "";
    const auto stopping = static_cast<std::size_t>(std::count_if(
        sessions.begin(), sessions.end(), [](const auto& entry) { return entry.second.stopping; }));
    ending = room + stopping >= requests.size();
    return fmt::format(
        "no room for {} more sessions: {} are running, and there is room for {} (--max-sessions)",
        requests.size(), sessions.size() - stopping, room + sessions.size());
  }

  // sides.size(): there is none.
  std::size_t side_named(const std::string& device) const {
    const auto found = std::find_if(sides.begin(), sides.end(), [&](const auto& side) {
      return side->port.device() == device;
    });
    return static_cast<std::size_t>(found - sides.begin());
  }

  // The worker with the fewest layers of those with a free slot; `port`: "" or the name of one.
  unsigned place(const std::string& port, const std::vector<std::vector<std::uint32_t>>& free,
                 const std::vector<std::size_t>& load) const {
    const std::size_t wanted = port.empty() ? sides.size() : side_named(port);
    std::size_t best = workers.size();
    for (unsigned i = 0; i < workers.size(); ++i) {
      if (free[i].empty() || (wanted != sides.size() && side_of(i) != wanted)) continue;
      if (best == workers.size() || load[i] < load[best]) best = i;
    }
    return static_cast<unsigned>(best);
  }

  // With the mutex held: takes back the sessions that the workers have stopped.
  void collect() {
    for (unsigned i = 0; i < workers.size(); ++i) {
      Session* session;
      while (workers[i]->returned.pop(session)) {
        workers[i]->sessions().read_layers(*session, ended);
        free_slots[i].push_back(session->slot());
        layers[i] -= session->config().layers;
        sessions.erase(session->config().session);
      }
    }
  }
};

Sender::Sender(const SenderSettings& options, const std::vector<SenderPort>& ports)
    : state_(std::make_unique<State>(options, ports)) {
  State& state = *state_;
  if (options.payload == "-" && state.lcores.size() > 1) {
    throw ConfigError("--payload -: standard input feeds one worker; give one core by -l");
  }
  state.payloads = open_payload(options.payload, state.lcores.size());
  std::vector<std::vector<Worker*>> workers(state.sides.size());
  for (unsigned i = 0; i < state.lcores.size(); ++i) {
    State::Side& side = *state.sides[state.side_of(i)];
    const std::uint32_t sharing = queues(state.lcores.size(), state.sides.size(), state.side_of(i));
    Worker::Settings settings;
    settings.sessions.sessions = std::max((options.session_capacity + sharing - 1) / sharing, 1u);
    settings.sessions.addresses = side.addresses;
    settings.sessions.gateway = &side.gateway;
    settings.sessions.offload = side.port.checksum_offload();
    settings.sessions.largest_frame = options.largest_frame;
    settings.sessions.prefilled = true;
    settings.feedback_waiting = std::bit_floor(kFeedbackWaiting / sharing);
    settings.sessions.payload = state.payloads[i].get();
    settings.lcore = state.lcores[i];
    settings.queue = static_cast<std::uint16_t>(i / state.sides.size());
    settings.poll = options.poll;
    settings.quantum = options.quantum;
    settings.sessions.records = options.trace;
    if (!state.own_receiver) {
      settings.receive = [&side](Time now, unsigned limit) {
        return side.receiver->poll(now, limit);
      };
      settings.receive_descriptor = side.port.receive_descriptor();
    }
    state.workers.push_back(std::make_unique<Worker>(settings, side.port));
    workers[state.side_of(i)].push_back(state.workers.back().get());
    std::vector<std::uint32_t>& slots = state.free_slots.emplace_back();
    for (std::uint32_t slot = settings.sessions.sessions; slot-- > 0;) slots.push_back(slot);
  }
  state.layers.resize(state.workers.size(), 0);
  for (std::size_t i = 0; i < state.sides.size(); ++i) {
    State::Side& side = *state.sides[i];
    side.receiver = std::make_unique<FeedbackReceiver>(side.addresses, side.gateway, side.port,
                                                       std::move(workers[i]));
  }
}

Sender::~Sender() { stop(); }

void Sender::run() {
  State& state = *state_;
  for (unsigned i = 0; i < state.workers.size(); ++i) {
    state.threads.emplace_back([&state, i] {
      dpdk::pin_to(state.lcores[i]);
      raise_priority(state.options.realtime);
      rte_thread_register();  // gives the thread its own cache of buffers
      try {
        state.workers[i]->run(state.stop);
      } catch (const std::exception& error) {
        if (!state.fails.test_and_set()) {
          state.failure = error.what();
          state.failed.store(true, std::memory_order_release);
        }
      }
      rte_thread_unregister();
    });
  }
  if (state.own_receiver) {
    state.receiving = std::thread([&state] {
      dpdk::pin_to(rte_get_main_lcore());
      rte_thread_register();
      const auto poll = [&state] {
        unsigned taken = 0;
        for (const auto& side : state.sides) taken += side->receiver->poll(agent::monotonic_now());
        return taken;
      };
      // On a worker's CPU it must not spin, because it would take half of the worker's time.
      const bool spins = state.options.poll && !share_cpus(rte_get_main_lcore(), state.lcores);
      while (!state.stop_receiving.load(std::memory_order_relaxed)) {
        if (poll() > 0 || spins) continue;
        std::this_thread::sleep_for(std::chrono::nanoseconds(kReceiveSleep.ns()));
      }
      unsigned polls = Port::kLastPolls;
      while (polls-- > 0 && poll() > 0) {
      }
      rte_thread_unregister();
    });
  }
}

void Sender::stop() {
  State& state = *state_;
  if (state.threads.empty()) return;
  {
    const std::lock_guard lock(state.mutex);
    for (auto& [number, running] : state.sessions) {
      if (running.stopping) continue;
      running.stopping = true;
      state.receiver_of(running.worker).remove(number);
      state.order(running.worker, {Command::Kind::kStop, running.session.get(), -1});
    }
  }
  for (;;) {
    {
      const std::lock_guard lock(state.mutex);
      state.collect();
      if (state.sessions.empty() || state.failed) break;
    }
    std::this_thread::sleep_for(kEndPoll);
  }
  // First stop the threads that fill the workers' rings, then those that empty them.
  state.stop_receiving.store(true);
  if (state.receiving.joinable()) state.receiving.join();
  state.stop.store(true);
  for (const auto& worker : state.workers) worker->wake();
  for (std::thread& thread : state.threads) thread.join();
  state.threads.clear();
}

void Sender::start_sessions(const std::vector<SessionRequest>& requests) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const Time deadline = agent::monotonic_now() + kEndTimeout;
  for (;;) {
    state.collect();
    bool ending = false;
    const std::string obstacle = state.obstacle(requests, ending);
    if (obstacle.empty()) break;
    if (!ending || agent::monotonic_now() > deadline) throw ConfigError(obstacle);
    lock.unlock();
    std::this_thread::sleep_for(kEndPoll);
    lock.lock();
  }
  const Time now = agent::monotonic_now();
  const auto started = static_cast<double>(std::max<std::size_t>(requests.size(), 1));
  const Duration spacing = state.options.ramp * (1 / started);
  std::vector<State::Running> prepared;  // make all of them before the first one starts
  auto free_slots = state.free_slots;
  auto layers = state.layers;
  for (const SessionRequest& request : requests) {
    const unsigned worker = state.place(request.port, free_slots, layers);
    const Time start_at = now + spacing * static_cast<double>(prepared.size());
    prepared.push_back(
        {std::make_unique<Session>(request, free_slots[worker].back(), start_at), worker, false});
    free_slots[worker].pop_back();
    layers[worker] += request.config.layers;
  }
  state.free_slots = std::move(free_slots);
  state.layers = std::move(layers);
  for (State::Running& running : prepared) {
    Session* const session = running.session.get();
    const unsigned worker = running.worker;
    const std::uint16_t number = session->config().session;
    state.receiver_of(worker).enter(number, session->scheme_id(),
                                    static_cast<unsigned>(worker / state.sides.size()),
                                    session->slot());
    state.sessions[number] = std::move(running);
    state.order(worker, {Command::Kind::kStart, session, -1});
  }
}

void Sender::set_membership(std::uint16_t session, int top_rank) {
  const std::lock_guard lock(state_->mutex);
  const State::Running& running = state_->find(session);
  state_->order(running.worker, {Command::Kind::kMembership, running.session.get(), top_rank});
}

void Sender::stop_session(std::uint16_t session) {
  const std::lock_guard lock(state_->mutex);
  State::Running& running = state_->find(session);
  running.stopping = true;
  state_->receiver_of(running.worker).remove(session);
  state_->order(running.worker, {Command::Kind::kStop, running.session.get(), -1});
}

void Sender::tend(agent::Telemetry* telemetry) {
  State& state = *state_;
  if (state.failed.load(std::memory_order_acquire)) throw std::runtime_error(state.failure);
  for (const auto& side : state.sides) {
    side->missed.store(side->port.missed(), std::memory_order_relaxed);
  }
  {
    const std::lock_guard lock(state.mutex);
    state.collect();
  }
  TraceRecord record;
  for (const auto& worker : state.workers) {
    // A worker may write records faster than they can be told; the rest waits for the next turn.
    for (std::size_t left = worker->records.capacity(); left > 0; --left) {
      if (!worker->records.pop(record)) break;
      if (telemetry == nullptr) continue;
      std::array<TraceField, TraceRecord::kMaxFields + 1> fields;
      fields[0] = {"session", static_cast<double>(record.session)};
      for (std::size_t i = 0; i < record.fields; ++i) {
        fields[i + 1] = {record.values[i].name.data(), record.values[i].value};
      }
      const auto all = std::span(fields).first(record.fields + 1u);
      telemetry->record(record.time, record.kind.data(),
                        state.options.name_sessions ? all : all.subspan(1));
    }
  }
}

void Sender::set_link(std::size_t port, bool up) {
  State& state = *state_;
  state.sides[port]->link_up.store(up, std::memory_order_relaxed);
  for (unsigned i = 0; i < state.workers.size(); ++i) {
    if (state.side_of(i) == port) state.workers[i]->set_link(up);
  }
}

Statistics Sender::statistics(bool layers) const {
  const State& state = *state_;
  Statistics out;
  out.taken = agent::monotonic_now();
  for (const auto& side : state.sides) {
    PortStatistics& port = out.ports.emplace_back();
    port.device = side->port.device();
    port.link_up = side->link_up.load(std::memory_order_relaxed);
    port.feedback = side->receiver->statistics();
    port.feedback.missed = side->missed.load(std::memory_order_relaxed);
  }
  for (unsigned i = 0; i < state.workers.size(); ++i) {
    out.workers.push_back(state.workers[i]->statistics());
    out.workers.back().port = static_cast<unsigned>(state.side_of(i));
  }
  if (layers) {
    const std::lock_guard lock(state.mutex);
    for (const auto& [number, running] : state.sessions) {
      if (!running.session->started()) continue;
      state.workers[running.worker]->sessions().read_layers(*running.session, out.layers);
    }
  }
  return out;
}

std::vector<LayerStatistics> Sender::take_ended_layers() {
  const std::lock_guard lock(state_->mutex);
  state_->collect();
  return std::exchange(state_->ended, {});
}

bool Sender::finished() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->sessions.empty()) return false;
  return std::all_of(state_->sessions.begin(), state_->sessions.end(),
                     [](const auto& entry) { return entry.second.session->finished(); });
}

}  // namespace tiercast::sender
