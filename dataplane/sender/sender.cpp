#include "dataplane/sender/sender.h"

#include <fmt/format.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
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

void pin_to(unsigned lcore) {
  rte_cpuset_t set = rte_lcore_cpuset(lcore);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// A sleeping worker never keeps the processor for long. If the priority is not permitted, the main
// thread has already said so (agent/run.h).
void raise_priority(int realtime) {
  if (realtime == 0) return;
  sched_param parameter{};
  parameter.sched_priority = realtime;
  pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
}

}  // namespace

struct Sender::State {
  struct Running {
    std::unique_ptr<Session> session;
    unsigned worker = 0;
    bool stopping = false;
  };

  SenderSettings options;
  Port& port;
  std::vector<unsigned> lcores;
  // Whether a thread on the main lcore receives, beside the workers. (Do not use rte_lcore_count()
  // for this: it counts registered threads too, so it grows while they start.)
  bool own_receiver;
  std::vector<std::unique_ptr<PayloadSource>> payloads;
  std::vector<std::unique_ptr<Worker>> workers;
  Neighbour gateway;
  std::unique_ptr<FeedbackReceiver> receiver;
  std::vector<std::thread> threads;  // the workers'
  std::thread receiving;
  std::atomic<bool> stop{false};
  std::atomic<bool> stop_receiving{false};
  std::atomic<bool> link_up{true};
  std::atomic<bool> failed{false};
  std::atomic_flag fails;  // set by the first thread that fails, which writes `failure`
  std::string failure;     // valid once `failed`
  std::atomic<std::uint64_t> missed{0};  // as of the last tend()

  mutable std::mutex mutex;  // guards the members below: the controlling side
  std::map<std::uint16_t, Running> sessions;
  std::vector<std::vector<std::uint32_t>> free_slots;  // of each worker's table
  std::vector<LayerStatistics> ended;

  State(const SenderSettings& o, Port& p)
      : options(o),
        port(p),
        lcores(dpdk::Eal::worker_lcores()),
        own_receiver(lcores.front() != rte_get_main_lcore()),
        gateway(o.addresses.own, o.addresses.gateway_ip, o.addresses.gateway) {}

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
    }
    std::size_t room = 0;
    for (const auto& slots : free_slots) room += slots.size();
    if (in_the_way == 0 && room >= requests.size()) return "";
    const auto stopping = static_cast<std::size_t>(std::count_if(
        sessions.begin(), sessions.end(), [](const auto& entry) { return entry.second.stopping; }));
    ending = room + stopping >= requests.size();
    return fmt::format(
        "no room for {} more sessions: {} are running, and there is room for {} (--max-sessions)",
        requests.size(), sessions.size() - stopping, room + sessions.size());
  }

  // With the mutex held: takes back the sessions that the workers have stopped.
  void collect() {
    for (unsigned i = 0; i < workers.size(); ++i) {
      Session* session;
      while (workers[i]->returned.pop(session)) {
        workers[i]->sessions().read_layers(*session, ended);
        free_slots[i].push_back(session->slot());
        sessions.erase(session->config().session);
      }
    }
  }
};

Sender::Sender(const SenderSettings& options, Port& port)
    : state_(std::make_unique<State>(options, port)) {
  State& state = *state_;
  if (options.payload == "-" && state.lcores.size() > 1) {
    throw ConfigError("--payload -: standard input feeds one worker; give one core by -l");
  }
  const auto per_worker = static_cast<std::uint32_t>(
      (options.session_capacity + state.lcores.size() - 1) / state.lcores.size());
  std::vector<Worker*> workers;
  for (unsigned i = 0; i < state.lcores.size(); ++i) {
    Worker::Settings settings;
    settings.sessions.sessions = std::max(per_worker, 1u);
    settings.sessions.addresses = options.addresses;
    settings.sessions.gateway = &state.gateway;
    settings.sessions.offload = port.checksum_offload();
    settings.sessions.largest_frame = options.largest_frame;
    settings.sessions.prefilled = true;
    if (!options.payload.empty()) {
      state.payloads.push_back(open_payload(options.payload));
      settings.sessions.payload = state.payloads.back().get();
    }
    settings.queue = static_cast<std::uint16_t>(i);
    settings.poll = options.poll;
    settings.sessions.records = options.trace;
    if (!state.own_receiver) {
      settings.receive = [&state](Time now, unsigned limit) {
        return state.receiver->poll(now, limit);
      };
      settings.receive_descriptor = port.receive_descriptor();
    }
    state.workers.push_back(std::make_unique<Worker>(settings, port));
    workers.push_back(state.workers.back().get());
    std::vector<std::uint32_t>& slots = state.free_slots.emplace_back();
    for (std::uint32_t slot = settings.sessions.sessions; slot-- > 0;) slots.push_back(slot);
  }
  state.receiver = std::make_unique<FeedbackReceiver>(options.addresses, state.gateway, port,
                                                      std::move(workers));
}

Sender::~Sender() { stop(); }

void Sender::run() {
  State& state = *state_;
  for (unsigned i = 0; i < state.workers.size(); ++i) {
    state.threads.emplace_back([&state, i] {
      pin_to(state.lcores[i]);
      raise_priority(state.options.realtime);
      rte_thread_register();  // gives the thread its own cache of buffers
      try {
        state.workers[i]->run(state.stop, state.lcores[i]);
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
      pin_to(rte_get_main_lcore());
      rte_thread_register();
      while (!state.stop_receiving.load(std::memory_order_relaxed)) {
        if (state.receiver->poll(agent::monotonic_now()) > 0 || state.options.poll) continue;
        std::this_thread::sleep_for(std::chrono::nanoseconds(kReceiveSleep.ns()));
      }
      unsigned polls = Port::kLastPolls;
      while (polls-- > 0 && state.receiver->poll(agent::monotonic_now()) > 0) {
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
      state.receiver->remove(number);
      state.order(running.worker, {Command::Kind::kStop, running.session.get(), -1});
    }
  }
  for (;;) {
    const std::lock_guard lock(state.mutex);
    state.collect();
    if (state.sessions.empty() || state.failed) break;
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
  for (const SessionRequest& request : requests) {
    // The worker with the most free slots.
    const auto less = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto worker = static_cast<unsigned>(
        std::max_element(free_slots.begin(), free_slots.end(), less) - free_slots.begin());
    const Time start_at = now + spacing * static_cast<double>(prepared.size());
    prepared.push_back(
        {std::make_unique<Session>(request, free_slots[worker].back(), start_at), worker, false});
    free_slots[worker].pop_back();
  }
  state.free_slots = std::move(free_slots);
  for (State::Running& running : prepared) {
    Session* const session = running.session.get();
    const unsigned worker = running.worker;
    const std::uint16_t number = session->config().session;
    state.receiver->enter(number, session->scheme_id(), worker, session->slot());
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
  state_->receiver->remove(session);
  state_->order(running.worker, {Command::Kind::kStop, running.session.get(), -1});
}

void Sender::tend(agent::Telemetry* telemetry) {
  State& state = *state_;
  if (state.failed.load(std::memory_order_acquire)) throw std::runtime_error(state.failure);
  state.missed.store(state.port.missed(), std::memory_order_relaxed);
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

void Sender::set_link(bool up) {
  state_->link_up.store(up, std::memory_order_relaxed);
  for (const auto& worker : state_->workers) worker->set_link(up);
}

Statistics Sender::statistics(bool layers) const {
  const State& state = *state_;
  Statistics out;
  out.taken = agent::monotonic_now();
  out.link_up = state.link_up.load(std::memory_order_relaxed);
  for (const auto& worker : state.workers) out.workers.push_back(worker->statistics());
  out.feedback = state.receiver->statistics();
  out.feedback.missed = state.missed.load(std::memory_order_relaxed);
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
