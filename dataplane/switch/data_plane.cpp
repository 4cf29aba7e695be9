#include "dataplane/switch/data_plane.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "dataplane/engine/queues/port.h"
#include "dataplane/switch/clock.h"
#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint64_t kInterfacesKey = 1u << 16;  // smaller keys are indices into ports_
constexpr std::int64_t kLinkPeriod = 100'000'000;  // ns between checks of the links of polled ports
constexpr std::int64_t kFlushPeriod = 50'000;  // ns between tries to send what a port keeps back
constexpr std::size_t kMostWaiting = 1024;  // frames in a port's outbox from which on workers wait
constexpr std::size_t kMostHops = 2000;     // traced packets that wait to be taken

void require_depth_register(const engine::Program& program, const std::string& name) {
  const auto& all = program.registers();
  if (name.empty() || std::any_of(all.begin(), all.end(), [&](auto& r) { return r.name == name; }))
    return;
  throw OptionError(fmt::format("--depth-register {}: {} has no such register; valid: {}", name,
                                program.name(), listed_registers(program)));
}

}  // namespace

std::string listed_registers(const engine::Program& program) {
  std::vector<std::string_view> names;
  for (const engine::RegisterInfo& one : program.registers()) names.push_back(one.name);
  return names.empty() ? "none, as it has no registers" : fmt::format("{}", fmt::join(names, ", "));
}

DataPlane::DataPlane(const std::vector<PortOption>& ports, std::uint32_t cpu_port, unsigned workers,
                     std::uint64_t seed, std::string depth_register, const Linked* linked)
    : cpu_port_(cpu_port),
      seed_(seed),
      depth_register_(std::move(depth_register)),
      by_number_(engine::Switch::kMaxPorts, nullptr) {
  for (unsigned number = 0; number < workers; ++number) {
    auto loop = linked != nullptr ? linked->loop : std::make_shared<Loop>();
    workers_.push_back(std::make_unique<Worker>(*this, number, std::move(loop)));
    Worker& worker = *workers_.back();
    worker.loop->add(worker);
    worker.arrivals.reserve(ports.size() * FramePort::kBatch);
  }
  workers_[0]->loop->watch(interface_events_.fd(), *workers_[0], kInterfacesKey);
  for (const PortOption& port : ports) {
    try {
      ports_.push_back(std::unique_ptr<Port>(
          new Port{port.number, port.link, open(port, workers, linked), Histogram()}));
    } catch (const InterfaceError& error) {
      throw InterfaceError(fmt::format("port {}: {}", port.number, error.what()));
    }
    Port& opened = *ports_.back();
    by_number_[port.number] = &opened;
    if (opened.frames->keeps_frames()) keeping_.push_back(&opened);
    const std::size_t index = ports_.size() - 1;
    if (const int fd = opened.frames->fd(); fd >= 0) {
      Worker& reader = *workers_[index % workers];
      reader.loop->watch(fd, reader, index);
    } else {
      unwatched_.push_back(&opened);
    }
  }
  if (polls_) workers_[0]->loop->poll(*workers_[0]);
}

std::unique_ptr<FramePort> DataPlane::open(const PortOption& port, unsigned workers,
                                           const Linked* linked) {
  if (linked != nullptr && port.interface.starts_with(kLinkPrefix)) {
    auto opened = linked->links.open(fmt::format("{}.{}", linked->name, port.number),
                                     port.interface.substr(kLinkPrefix.size()));
    opened->set_reader(*workers_[0]);
    return opened;
  }
  auto opened = open_port(port.interface);
  if (opened->fd() >= 0) return opened;
  if (workers > 1)
    throw InterfaceError(
        fmt::format("--workers {}: {} is a polled device, which one thread serves; valid: kernel "
                    "interfaces, or --workers 1",
                    workers, port.interface));
  polls_ = true;
  return opened;
}

DataPlane::~DataPlane() { stop(); }

void DataPlane::set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }

void DataPlane::limit_sleeps(unsigned in_a_second) {
  for (const auto& worker : workers_) worker->loop->limit_sleeps(in_a_second);
}

void DataPlane::start() {
  running_ = true;
  for (const auto& worker : workers_) worker->loop->start(*worker);
}

void DataPlane::stop() {
  // The first worker, which has the jobs, ends last.
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker)
    (*worker)->loop->stop();
  build_.reset();  // ends a compiler
}

void DataPlane::call(const std::function<void()>& work) {
  Job job{&work, {}};
  auto done = job.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return work();
    jobs_.push_back(&job);
  }
  workers_[0]->loop->wake(*workers_[0]);
  done.get();
}

void DataPlane::run_jobs(std::int64_t until_ns) {
  std::vector<Job*> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  if (build_) {
    if (const auto code = build_->take()) use_native(*code);
  }
  for (Job* job : jobs) {
    try {
      if (pipeline_) pipeline_->advance(std::min(monotonic_ns(), until_ns));
      (*job->work)();
      job->done.set_value();
    } catch (...) {
      job->done.set_exception(std::current_exception());
    }
  }
}

void DataPlane::end_jobs() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  run_jobs(Loop::kNever);
}

std::int64_t DataPlane::turn(Worker& worker, std::int64_t until_ns) {
  bool has_more = false;  // possibly, at ports whose frames are not all taken yet
  for (Port* port : unwatched_) {
    has_more |= port->untaken != 0;
    read(worker, *port);
  }
  if (has_more) worker.touch(until_ns + 1);
  if (workers_.size() == 1) {
    const std::int64_t due_ns = work_through(worker, until_ns);
    const std::int64_t again_ns = flush();
    if (!departures_.empty()) note_departures();
    return std::min(due_ns, again_ns);
  }
  std::int64_t due_ns = 0;
  {
    const std::lock_guard lock(engine_);
    due_ns = work_through(worker, until_ns);
    // Others take a turn of their own only before the first worker's.
    if (worker.number == 0) {
      due_ns_ = due_ns;
    } else if (due_ns >= due_ns_) {
      due_ns = Loop::kNever;
    }
  }
  for (const auto& port : ports_) send_outbox(*port);
  return std::min(due_ns, flush());
}

// Has ports send what they keep back. Returns when to try again.
std::int64_t DataPlane::flush() {
  bool all_left = true;
  for (Port* port : keeping_) {
    const std::lock_guard lock(port->outbox.sending);
    if (!port->frames->flush()) all_left = false;
  }
  return all_left ? Loop::kNever : monotonic_ns() + kFlushPeriod;
}

// Processes what the worker has read, as far as it came by then, and what is due by then. Returns
// when the next of either is due.
std::int64_t DataPlane::work_through(Worker& worker, std::int64_t until_ns) {
  // Not std::stable_sort, because that allocates.
  const auto earlier = [](const Arrival& a, const Arrival& b) {
    return a.frame.arrival_ns != b.frame.arrival_ns ? a.frame.arrival_ns < b.frame.arrival_ns
                                                    : a.order < b.order;
  };
  if (!std::is_sorted(worker.arrivals.begin(), worker.arrivals.end(), earlier))
    std::sort(worker.arrivals.begin(), worker.arrivals.end(), earlier);
  // What a polled device has comes now, and is taken at once.
  const std::int64_t take_until_ns = polls_ ? Loop::kNever : until_ns;
  auto next = worker.arrivals.begin();
  while (next != worker.arrivals.end() && next->frame.arrival_ns <= take_until_ns) take(*next++);
  worker.arrivals.erase(worker.arrivals.begin(), next);
  if (std::exchange(worker.has_jobs, false)) run_jobs(until_ns);
  const std::int64_t now_ns = monotonic_ns();
  if (worker.links_changed || (polls_ && now_ns - links_seen_ns_ > kLinkPeriod)) {
    worker.links_changed = false;
    look_at_links();
  }
  if (worker.number == 0) turns_.turn(now_ns);
  if (pipeline_) pipeline_->advance(std::min(now_ns, until_ns));
  std::int64_t due_ns = turns_.next_beat_ns();
  if (pipeline_) due_ns = std::min(due_ns, pipeline_->next_event());
  if (!worker.arrivals.empty()) due_ns = std::min(due_ns, worker.arrivals[0].frame.arrival_ns);
  return due_ns;
}

void DataPlane::take(const Arrival& arrival) {
  const ReceivedFrame& frame = arrival.frame;
  --arrival.port->untaken;
  if (frame.lender == nullptr) {
    if (pipeline_) pipeline_->receive(arrival.port->number, frame.bytes, frame.arrival_ns);
    return;
  }
  if (!pipeline_) return frame.lender->take_back(frame.handle);
  // A lender's memory may be changed.
  const std::span bytes(const_cast<std::byte*>(frame.bytes.data()), frame.bytes.size());
  pipeline_->receive(arrival.port->number, engine::LentFrame{bytes, frame.handle, frame.lender},
                     frame.arrival_ns);
}

Health DataPlane::take_health() {
  if (running_) turns_.turn(monotonic_ns());  // the pause that ends now counts
  health_.longest_pause_ns = turns_.take_longest_ns();
  return health_;
}

// A port has only one sender at a time, so that its frames keep their order. A worker that finds
// the port busy need not wait, because the sender looks again before it leaves. Only a worker that
// is far ahead waits for it.
void DataPlane::send_outbox(Port& port) {
  Outbox& outbox = port.outbox;
  while (outbox.waiting != 0) {
    std::unique_lock sending(outbox.sending, std::defer_lock);
    if (outbox.waiting > kMostWaiting) {
      sending.lock();
    } else if (!sending.try_lock()) {
      return;
    }
    {
      const std::lock_guard lock(outbox.mutex);
      std::swap(outbox.queued, outbox.leaving);
      outbox.waiting = 0;
    }
    const std::byte* frame = outbox.leaving.bytes.data();
    for (const std::size_t size : outbox.leaving.sizes) {
      port.frames->send({frame, size}, 0);
      frame += size;
    }
    outbox.leaving.bytes.clear();
    outbox.leaving.sizes.clear();
    sending.unlock();
    // Either this increment by zero or another worker's comes first: either that worker's
    // try_lock() finds the mutex free, or the loop here sees its frame.
    outbox.waiting.fetch_add(0, std::memory_order_acq_rel);
  }
}

// Returns when the first of the frames came.
std::int64_t DataPlane::read(Worker& worker, Port& port) {
  std::int64_t first_ns = Loop::kNever;
  if (port.untaken != 0) return first_ns;
  for (const ReceivedFrame& frame : port.frames->receive()) {
    worker.arrivals.push_back({&port, static_cast<std::uint32_t>(worker.arrivals.size()), frame});
    first_ns = std::min(first_ns, frame.arrival_ns);
    ++port.untaken;
  }
  return first_ns;
}

void DataPlane::readable(Worker& worker, std::uint64_t key) {
  if (key == kInterfacesKey) {
    interface_events_.clear();
    worker.links_changed = true;
    worker.touch(monotonic_ns());
  } else {
    worker.touch(read(worker, *ports_[key]));
  }
}

void DataPlane::transmit(std::uint32_t port, std::span<const std::byte> frame,
                         std::int64_t due_ns) {
  Port& out = *by_number_[port];
  note_departure(out, due_ns);
  if (workers_.size() == 1) {
    out.frames->send(frame, due_ns);
    return;
  }
  const std::lock_guard lock(out.outbox.mutex);
  out.outbox.queued.bytes.insert(out.outbox.queued.bytes.end(), frame.begin(), frame.end());
  out.outbox.queued.sizes.push_back(frame.size());
  ++out.outbox.waiting;
}

bool DataPlane::transmit_lent(std::uint32_t port, const engine::LentFrame& frame, bool last,
                              std::int64_t due_ns) {
  Port& out = *by_number_[port];
  note_departure(out, due_ns);
  return out.frames->send_lent(frame, last, due_ns);
}

// Reading the clock takes a good part of the time that a polled frame takes. Those of a turn leave
// together at its end, so one reading is right for all of them.
void DataPlane::note_departure(Port& port, std::int64_t due_ns) {
  if (polls_) {
    departures_.emplace_back(&port, due_ns);
  } else {
    port.lateness.add(monotonic_ns() - due_ns);
  }
}

void DataPlane::note_departures() {
  const std::int64_t now_ns = monotonic_ns();
  for (const auto& [port, due_ns] : departures_) port->lateness.add(now_ns - due_ns);
  departures_.clear();
}

void DataPlane::packet_in(std::span<const std::byte> frame) {
  ++health_.packet_ins;
  if (!handlers_.packet_in || !handlers_.packet_in(frame)) ++health_.packet_ins_dropped;
}

bool DataPlane::digest(const engine::DigestList& list) {
  return handlers_.digest && handlers_.digest(list);
}

void DataPlane::entries_expired(std::string_view table,
                                std::span<const engine::TableEntry> entries) {
  if (handlers_.entries_expired) handlers_.entries_expired(table, entries);
}

std::unique_ptr<engine::Switch> DataPlane::make_switch(
    std::shared_ptr<const engine::Program> program, engine::Output& output) const {
  engine::Switch::Options options;
  options.cpu_port = cpu_port_;
  options.seed = seed_;
  options.label = accounts::by_group();
  require_depth_register(*program, depth_register_);
  options.depth_register = depth_register_;
  auto result = std::make_unique<engine::Switch>(std::move(program), options, output);
  for (const auto& port : ports_) {
    const engine::Status status = result->set_port(port->number, {}, monotonic_ns());
    if (!status.ok()) throw OptionError(fmt::format("port {}: {}", port->number, status.message()));
  }
  return result;
}

void DataPlane::start_native(const std::shared_ptr<const engine::Program>& program) {
  build_.reset();
  if (native_ == NativeMode::kWait) return use_native(native::obtain(*program, {}, builder_));
  if (native_ == NativeMode::kOff) return;
  build_.emplace(program, [this] { workers_[0]->loop->wake(*workers_[0]); }, builder_);
}

void DataPlane::use_native(const native::Code& code) {
  if (code.program == nullptr) {
    spdlog::info("{} is interpreted: {}", pipeline_->program().name(), code.how);
    return;
  }
  pipeline_->run_native(code.program);
  spdlog::info("{} runs as {}", pipeline_->program().name(), code.how);
}

void DataPlane::set_program(const std::shared_ptr<const engine::Program>& program) {
  if (pipeline_) {
    pipeline_->set_program(program);
    return start_native(program);
  }
  auto pipeline = make_switch(program, *this);
  for (const auto& port : ports_) {
    const engine::Status status = pipeline->set_port(port->number, port->link, monotonic_ns());
    if (!status.ok()) throw OptionError(fmt::format("port {}: {}", port->number, status.message()));
  }
  pipeline->set_trace(trace_file_);
  pipeline_ = std::move(pipeline);
  look_at_links();
  start_native(program);
}

engine::Status DataPlane::trace_ports(std::map<std::uint32_t, trace::TracedPort> traced) {
  if (pipeline_ == nullptr)
    return {engine::ErrorCode::kFailedPrecondition, "the switch has no program yet"};
  if (trace_file_ != nullptr)
    return {engine::ErrorCode::kFailedPrecondition,
            "the switch writes a trace to a file (--trace)"};
  const auto& known = pipeline_->program().registers();
  for (const auto& [number, port] : traced) {
    if (number >= by_number_.size() || by_number_[number] == nullptr)
      return {engine::ErrorCode::kNotFound, fmt::format("no port {}", number)};
    for (const std::string& name : port.registers)
      if (std::none_of(known.begin(), known.end(), [&](auto& r) { return r.name == name; }))
        return {engine::ErrorCode::kNotFound, fmt::format("no register '{}'; valid: {}", name,
                                                          listed_registers(pipeline_->program()))};
  }
  pipeline_->set_trace(nullptr);
  hops_.reset();
  if (traced.empty()) return {};
  hops_.emplace(std::move(traced), kMostHops);
  pipeline_->set_trace(&*hops_);
  return {};
}

// Tells the pipeline which ports have a link, because action groups skip members whose port has
// none.
void DataPlane::look_at_links() {
  links_seen_ns_ = monotonic_ns();
  if (!pipeline_) return;
  for (const auto& port : ports_) {
    const bool up = port->frames->link_up();
    if (up == port->up) continue;
    port->up = up;
    (void)pipeline_->set_port_up(port->number, up);  // the port exists
  }
}

void DataPlane::packet_out(std::span<const std::byte> frame) {
  if (pipeline_) pipeline_->receive(cpu_port_, frame, monotonic_ns());
}

engine::Status DataPlane::change_link(std::uint32_t number, const LinkChange& change) {
  Port* port = number < by_number_.size() ? by_number_[number] : nullptr;
  if (!port) {
    std::vector<std::uint32_t> numbers;
    for (const auto& existing : ports_) numbers.push_back(existing->number);
    return {engine::ErrorCode::kNotFound,
            fmt::format("port {} does not exist; ports: {}", number, fmt::join(numbers, ", "))};
  }
  engine::PortConfig link = port->link;
  if (change.rate_bps) link.rate_bps = *change.rate_bps;
  if (change.queue_packets) link.queue_packets = *change.queue_packets;
  if (change.queue_bytes) link.queue_bytes = *change.queue_bytes;
  if (change.delay_ns) link.delay_ns = *change.delay_ns;
  if (change.rx_delay_ns) link.rx_delay_ns = *change.rx_delay_ns;
  if (change.red) link.red = *change.red;
  if (change.priority) link.priority = *change.priority;
  if (change.wires) change.wires(link);
  // Also before there is a program, since none could be loaded then.
  if (const std::string wrong = engine::wrong(link); !wrong.empty())
    return {engine::ErrorCode::kInvalidArgument, fmt::format("port {}: {}", number, wrong)};
  if (pipeline_) {
    engine::Status status = pipeline_->set_port(number, link, monotonic_ns());
    if (!status.ok()) return status;
  }
  port->link = link;
  return {};
}

engine::SwitchStats DataPlane::totals() const {
  return pipeline_ ? pipeline_->switch_stats() : engine::SwitchStats();
}

std::vector<PortReport> DataPlane::report() {
  std::vector<PortReport> reports;
  for (const auto& port : ports_) {
    PortReport report;
    report.number = port->number;
    report.interface = port->frames->interface();
    report.overhead_bytes = port->link.overhead_bytes;
    report.red = port->link.red;
    report.priority = port->link.priority;
    if (pipeline_) {
      report.stats = pipeline_->stats(port->number, true);
      report.accounts = accounts::read(*pipeline_, port->number);
      report.policy = accounts::policy(*pipeline_, port->number);
    }
    report.kernel_drops = port->frames->kernel_drops();
    report.send_errors = port->frames->send_errors();
    report.late_p50_ns = port->lateness.quantile(0.5);
    report.late_p99_ns = port->lateness.quantile(0.99);
    report.late_max_ns = port->lateness.max();
    port->lateness.reset();
    reports.push_back(std::move(report));
  }
  std::sort(reports.begin(), reports.end(),
            [](const PortReport& a, const PortReport& b) { return a.number < b.number; });
  return reports;
}

}  // namespace tiercast::vswitch
