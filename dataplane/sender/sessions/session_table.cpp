#include "dataplane/sender/sessions/session_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "protocols/pacer/limits.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {
namespace {

std::size_t round_up(std::size_t n) { return (n + 7) / 8 * 8; }

}  // namespace

struct Session::Seals {
  Seals(const agent::SessionKeys& keys, std::size_t source_at)
      : sealer(keys.group, keys.nonce), opener(keys, source_at) {}
  agent::Sealer sealer;
  agent::FeedbackOpener opener;
};

Session::~Session() = default;

Session::Session(const SessionRequest& request, std::uint32_t slot, Time start_at)
    : input_(request.input), config_(request.config), slot_(slot), start_at_(start_at) {
  const Scheme& scheme = find_scheme(request.scheme);
  scheme_id_ = scheme.id;
  if (input_ != nullptr) config_.object = input_->bytes();
  if (request.keys) seals_ = std::make_unique<Seals>(*request.keys, scheme.feedback_source_at);
  driver_.emplace(scheme.make_sender(config_), Contract(scheme, config_), *this, Places(*this));
  driver_->membership(start_at, request.top_rank);
}

void Session::Places::set_rate(Time now, Rank layer, Rate rate) {
  SessionTable& table = *session_->table_;
  const SessionTable::Layer id = session_->slot_ * kMaxLayers + layer;
  SessionTable::LayerState& state = table.layers_[id];
  // A layer that ends keeps its rate, for its final figures.
  if (const double wanted = rate.bytes_per_second();
      !session_->ending_ && wanted != state.rate.load(std::memory_order_relaxed)) {
    state.rate.store(wanted, std::memory_order_relaxed);
    const double interval_ns = std::min(state.ip_bytes * 1e9 / wanted, kMaxIntervalNs);
    state.interval_ns = wanted > 0 ? static_cast<float>(std::round(interval_ns)) : 0;
    state.handed_over_ns = SessionTable::kNone;
  }
  table.pacer_.set_rate(now, id, rate, session_->config_.packet_size);
  table.running_layers_.store(table.pacer_.running(), std::memory_order_relaxed);
}

void Session::Places::release(Rank layer, std::uint32_t packets) {
  if (packets == 0) return;
  SessionTable& table = *session_->table_;
  const SessionTable::Layer id = session_->slot_ * kMaxLayers + layer;
  table.layers_[id].released += packets;
  table.enqueue_released(id);
}

void Session::send(Destination to, std::span<const std::byte> message) {
  table_->control(*this, to, message);
}

bool Session::wants_records() const { return table_->settings_.records; }

void Session::trace(Time now, std::string_view kind, std::span<const TraceField> fields) {
  table_->outlet_.record(now, config_.session, kind, fields);
}

SessionTable::SessionTable(const Settings& settings, Outlet& outlet)
    : settings_(settings),
      outlet_(outlet),
      pacer_(settings.sessions * kMaxLayers),
      timers_(settings.sessions),
      layers_(settings.sessions * kMaxLayers),
      slots_(settings.sessions),
      header_bytes_(wire::kFrameHeaderBytes + (settings.addresses.vlan ? dpdk::kVlanBytes : 0)),
      prefilled_(settings.prefilled && settings.payload == nullptr) {
  released_.resize(layers_.size());
}

void SessionTable::start(Time now, Session& session) {
  now_ = std::max(now_, now);
  const std::uint32_t slot = session.slot_;
  session.table_ = this;
  const SessionConfig& config = session.config_;
  const auto layers = static_cast<Rank>(config.layers);
  for (Rank rank = 0; rank < layers; ++rank) {
    wire::UdpFlow flow;
    flow.source_mac = settings_.addresses.own.mac;
    flow.source = settings_.addresses.own.ip;
    flow.source_port = wire::kDataPort;
    flow.destination = wire::group_address(config.session, rank);
    flow.destination_mac = wire::multicast_mac(flow.destination);
    flow.destination_port = wire::kDataPort;
    flow.ecn = session.driver_->core().ecn_capable() ? wire::Ecn::kEct0 : wire::Ecn::kNotEct;
    LayerState& layer = layers_[slot * kMaxLayers + rank];
    const bool waiting = layer.waiting;
    std::destroy_at(&layer);  // counters start from zero
    std::construct_at(&layer);
    layer.waiting = waiting;
    layer.headers =
        FrameTemplate(flow, settings_.addresses.vlan, config.packet_size, settings_.offload);
    layer.rank = rank;
    layer.whole_message = session.reliable();
    layer.session = &session;
    layer.ip_bytes = static_cast<std::uint16_t>(config.packet_size);
  }
  if (session.reliable()) prefilled_ = false;
  slots_[slot] = {&session, &session.driver_->core()};
  running_sessions_.fetch_add(1, std::memory_order_release);
  if (session.start_at_ > now_) {
    schedule(session, session.start_at_);
  } else {
    begin(session);
  }
}

void SessionTable::begin(Session& session) {
  session.started_.store(true, std::memory_order_release);
  session.driver_->start(now_);
  after(session);
}

void SessionTable::set_membership(Time now, Session& session, int top_rank) {
  now_ = std::max(now_, now);
  session.driver_->membership(now_, top_rank);
  if (session.driver_->running()) after(session);
}

void SessionTable::stop(Time now, Session& session) {
  now_ = std::max(now_, now);
  session.ending_ = true;
  session.driver_->stop(now_);
  const auto layers = static_cast<Rank>(session.config_.layers);
  for (Rank rank = 0; rank < layers; ++rank) {
    Session::Places(session).set_rate(now_, rank, Rate::zero());
    layers_[session.slot_ * kMaxLayers + rank].released = 0;
  }
  schedule(session, Time::never());
  slots_[session.slot_] = {};
  running_sessions_.fetch_sub(1, std::memory_order_release);
}

// To be called after each call of a core, whose timer may have changed.
inline void SessionTable::after(Session& session) {
  const Time next = session.driver_->next_timer();
  if (next != session.timer_) [[unlikely]]
    schedule(session, next);
}

void SessionTable::schedule(Session& session, Time next) {
  if (timers_.scheduled(session.slot_)) timers_.remove(session.slot_);
  session.timer_ = next;
  if (!next.is_never()) timers_.insert(now_.ns(), session.slot_, next.ns());
}

// Not before somebody is there: a transfer to nobody goes on.
void SessionTable::note_finished(Session& session) {
  if (session.reliable() && session.heard_ && session.driver_->core().finished()) {
    session.finished_.store(true, std::memory_order_relaxed);
  }
}

bool SessionTable::run_timer(Time now) {
  const std::uint32_t slot = timers_.first(now.ns());
  if (slot == TimingWheel<Timer>::kNone) return false;
  now_ = std::max(now_, now);
  Session& session = *slots_[slot].session;
  schedule(session, Time::never());
  timers_.prepare(2);
  if (!session.driver_->running()) {
    begin(session);
    return true;
  }
  session.driver_->timer(now_);
  note_finished(session);
  after(session);
  return true;
}

void SessionTable::receive(Time now, std::uint32_t slot, std::uint16_t number, Arrival arrival) {
  Session* const session = slot < slots_.size() ? slots_[slot].session : nullptr;
  if (session == nullptr || !session->driver_->running() || session->config_.session != number) {
    feedback_late_.add();
    return;
  }
  now_ = std::max(now_, now);
  if (session->seals_ != nullptr) {
    switch (session->seals_->opener.open(arrival.message)) {
      case agent::Seal::kIntact: break;
      case agent::Seal::kForged: feedback_forged_.add(); return;
      case agent::Seal::kReplayed: feedback_replayed_.add(); return;
    }
  }
  const bool reached_core = session->driver_->receive(now_, arrival);
  const FeedbackRefusals refusals = session->driver_->refusals();
  if (refusals.total() != session->refusals_seen_.total()) {
    feedback_non_member_.add(refusals.non_member - session->refusals_seen_.non_member);
    feedback_impersonated_.add(refusals.impersonated - session->refusals_seen_.impersonated);
    feedback_implausible_.add(refusals.implausible - session->refusals_seen_.implausible);
    session->refusals_seen_ = refusals;
  }
  if (!reached_core) return;
  feedback_delivered_.add();
  const SenderCore& core = session->driver_->core();
  const std::uint64_t invalid = core.invalid();
  feedback_refused_.add(invalid - session->invalid_seen_);
  session->invalid_seen_ = invalid;
  session->heard_ = true;
  note_finished(*session);
  after(*session);
}

void SessionTable::enqueue_released(Layer id) {
  if (layers_[id].waiting) return;
  layers_[id].waiting = true;
  released_[(first_released_ + waiting_++) % released_.size()] = id;
}

std::size_t SessionTable::pop_released(Time now, std::span<Departure> departures) {
  std::size_t count = 0;
  while (waiting_ > 0 && count < departures.size()) {
    const Layer id = released_[first_released_];
    first_released_ = (first_released_ + 1) % released_.size();
    --waiting_;
    LayerState& layer = layers_[id];
    layer.waiting = false;
    if (layer.released == 0) continue;  // the session was stopped in the meantime
    if (--layer.released > 0) enqueue_released(id);
    departures[count++] = {id, now};
  }
  return count;
}

SessionTable::Frame SessionTable::write(Layer id, Time now, std::byte* frame) {
  now_ = std::max(now_, now);
  LayerState& layer = layers_[id];
  const std::size_t header = layer.headers.header_bytes();
  const std::size_t size = layer.headers.message_bytes();
  std::byte* const message = frame + header;
  if (layer.whole_message) std::memcpy(message, pattern().data(), size);
  const std::size_t written = layer.session->driver_->write_data(now_, layer.rank, {message, size});
  if (written == 0) return {};
  layer.generated.add();
  generated_.add();
  after(*layer.session);
  layer.headers.write_headers(frame, next_ip_id_++);
  const std::size_t bytes = layer.headers.frame_bytes();
  if (layer.whole_message) return {bytes, size, 0};
  if (settings_.payload != nullptr) {
    if (!settings_.payload->fill({message + written, size - written})) payload_underruns_.add();
    return {bytes, size, 0};
  }
  const std::size_t changed = prefilled_ ? std::min(changed_, size) : size;
  if (written < changed) {
    std::memcpy(message + written, pattern().data() + written, changed - written);
  } else {
    changed_ = std::max(changed_, written);
  }
  const std::size_t head = std::min(round_up(written), size);
  if (layer.tail_from != head) [[unlikely]] {
    layer.tail_from = static_cast<std::uint16_t>(head);
    layer.tail_sum = fold(wire::sum_words(message + head, size - head));
  }
  return {bytes, head, layer.tail_sum};
}

void SessionTable::dropped(Layer id, bool built) {
  if (!built) {
    layers_[id].generated.add();
    generated_.add();
  }
  layers_[id].dropped.add();
  dropped_.add();
}

void SessionTable::control(const Session& session, Destination to,
                           std::span<const std::byte> message) {
  if (session.seals_ != nullptr) message = session.seals_->sealer.seal(message);
  wire::UdpFlow flow;
  flow.source_mac = settings_.addresses.own.mac;
  flow.source = settings_.addresses.own.ip;
  flow.source_port = wire::kDataPort;
  flow.destination_port = wire::kDataPort;
  if (to.kind == Destination::Kind::kGroup) {
    flow.destination = wire::group_address(session.config_.session, to.rank);
    flow.destination_mac = wire::multicast_mac(flow.destination);
  } else {
    flow.destination = to.address;
    flow.destination_mac =
        settings_.gateway != nullptr ? settings_.gateway->mac() : settings_.addresses.gateway;
  }
  std::array<std::byte, 9216> frame;
  if (header_bytes_ + message.size() > frame.size()) return;
  const auto whole = std::span(frame).first(header_bytes_ + message.size());
  std::copy(message.begin(), message.end(),
            whole.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
  wire::write_udp_headers(flow, next_ip_id_++,
                          whole.subspan(header_bytes_ - wire::kFrameHeaderBytes));
  if (settings_.addresses.vlan) dpdk::insert_tag(*settings_.addresses.vlan, whole);
  outlet_.control(whole);
}

Time SessionTable::next_deadline() const {
  return std::min(next_departure(), Time::nanoseconds(timers_.bound_ns()));
}

void SessionTable::read(WorkerStatistics& out) const {
  out.sessions = running_sessions_.load(std::memory_order_relaxed);
  out.layers = running_layers_.load(std::memory_order_relaxed);
  out.sent = sent_.get();
  out.sent_bytes = sent_bytes_.get();
  out.dropped = dropped_.get();
  out.generated = generated_.get();
  out.feedback_delivered = feedback_delivered_.get();
  out.feedback_refused = feedback_refused_.get();
  out.feedback_late = feedback_late_.get();
  out.feedback_refusals = {.non_member = feedback_non_member_.get(),
                           .impersonated = feedback_impersonated_.get(),
                           .implausible = feedback_implausible_.get()};
  out.seal_refusals = {.forged = feedback_forged_.get(), .replayed = feedback_replayed_.get()};
  out.payload_underruns = payload_underruns_.get();
  out.given_up = given_up_.load(std::memory_order_relaxed);
}

void SessionTable::read_layers(const Session& session, std::vector<LayerStatistics>& out) const {
  const auto layers = static_cast<Rank>(session.config_.layers);
  for (Rank rank = 0; rank < layers; ++rank) {
    const LayerState& layer = layers_[session.slot_ * kMaxLayers + rank];
    LayerStatistics figures;
    figures.session = session.config_.session;
    figures.rank = rank;
    figures.rate = Rate::bytes_per_second(layer.rate.load(std::memory_order_relaxed));
    figures.packet_size = session.config_.packet_size;
    figures.sent = layer.sent.get();
    figures.dropped = layer.dropped.get();
    figures.generated = layer.generated.get();
    out.push_back(figures);
  }
}

}  // namespace tiercast::sender
