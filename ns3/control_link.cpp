// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/control_link.h"

#include <google/protobuf/util/delimited_message_util.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "dataplane/updates/switch_updates.h"
#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

// The time within which a host repeats its report: once, as Linux does (RFC 3376, 8.1 and 8.11).
constexpr double kRepeatWithinS = 1;

// Of a frame that comes from the host; of bursts the mean.
double share_lost(const engine::WireConfig& wire) {
  if (!wire.up) return 1;
  const engine::LossModel& loss = wire.loss;
  const double changes = loss.to_bad + loss.to_good;
  const double bad = changes > 0 ? loss.to_bad / changes : 0;
  return bad * loss.in_bad + (1 - bad) * loss.in_good;
}

void apply_update(engine::Switch& changing, const v1::SwitchUpdate& update) {
  const engine::Status status = updates::apply(changing, update);
  if (!status.ok()) {
    throw ConfigError(update.switch_() + " refuses " + update.ShortDebugString() + ": " +
                      status.message());
  }
}

}  // namespace

// A host's second report, after a link has lost the first.
class ControlLink::Repeat final : public Event {
 public:
  Repeat(ControlLink& link, const HostSpec& host, const v1::SimulatedSession& session, Rank rank)
      : link_(link), host_(host), session_(session), rank_(rank) {}
  void set(const char* what) { what_ = what; }
  void run() override { link_.arrives(what_, host_, session_, rank_); }

 private:
  ControlLink& link_;
  const HostSpec& host_;
  const v1::SimulatedSession& session_;
  const Rank rank_;
  const char* what_ = nullptr;
};

ControlLink::ControlLink(google::protobuf::io::ZeroCopyInputStream& answers,
                         LogicalProcess& process, std::int64_t delay_ns, VirtualNetwork& network,
                         Records& records, std::uint64_t seed, TopRank top_rank)
    : answers_(answers),
      process_(process),
      delay_ns_(delay_ns),
      network_(network),
      records_(records),
      rng_(seed),
      top_rank_(std::move(top_rank)) {}

ControlLink::~ControlLink() = default;

void ControlLink::apply_first_answer() {
  const v1::ControllerAnswer answer = read_answer();
  for (const v1::SwitchUpdate& update : answer.updates()) {
    apply_update(network_.at(update.switch_()), update);
  }
}

v1::ControllerAnswer ControlLink::read_answer() {
  v1::ControllerAnswer answer;
  bool has_ended = false;
  if (google::protobuf::util::ParseDelimitedFromZeroCopyStream(&answer, &answers_, &has_ended)) {
    return answer;
  }
  if (has_ended) throw std::runtime_error("the controller is gone");
  throw ConfigError(
      "the controller's answer: no message tiercast.v1.ControllerAnswer behind its length");
}

void ControlLink::apply(const v1::ControllerAnswer& answer, std::int64_t at_ns) {
  for (const v1::SwitchUpdate& update : answer.updates()) {
    engine::Switch& changing = network_.at(update.switch_());
    network_.process_of(update.switch_()).at(at_ns, [&changing, update] {
      apply_update(changing, update);
    });
  }
}

void ControlLink::report(const HostSpec& host, const v1::SimulatedSession& session, Rank rank,
                         bool joins) {
  network_.process_of(host.switch_name).ask_control([this, &host, &session, rank, joins] {
    changed(host, session, rank, joins);
  });
}

void ControlLink::changed(const HostSpec& host, const v1::SimulatedSession& session, Rank rank,
                          bool joins) {
  const char* what = joins ? "join" : "leave";
  std::unique_ptr<Repeat>& repeat = repeats_[{&host, &session, rank}];
  if (repeat != nullptr) process_.cancel(*repeat);
  if (arrives(what, host, session, rank)) return;
  if (repeat == nullptr) repeat = std::make_unique<Repeat>(*this, host, session, rank);
  repeat->set(what);
  process_.schedule(*repeat, process_.now() + std::llround(1e9 * kRepeatWithinS * rng_.uniform()));
}

bool ControlLink::arrives(const char* what, const HostSpec& host,
                          const v1::SimulatedSession& session, Rank rank) {
  const engine::PortConfig port =
      network_.at(host.switch_name).port_config(host.switch_port).value();
  const double lost = share_lost(port.rx_wire);
  if (lost > 0 && rng_.uniform() < lost) return false;
  process_.at(process_.now() + port.rx_delay_ns,
              [this, what, &host, &session, rank] { ask(what, host, session, rank); });
  return true;
}

void ControlLink::report(const v1::PortChange& change) {
  if (!change.wire().has_up() && !change.has_delay_ns()) return;
  nlohmann::json asked = {{"ask", "port"},
                          {"time_ns", process_.now()},
                          {"switch", change.switch_()},
                          {"port", change.port()}};
  if (change.wire().has_up()) asked["up"] = change.wire().up();
  if (change.has_delay_ns()) asked["delay_ns"] = change.delay_ns();
  question(asked.dump(), std::nullopt);
}

v1::ControllerAnswer ControlLink::question(const std::string& line,
                                           std::optional<std::uint16_t> session) {
  records_.send_now(line);
  v1::ControllerAnswer answer = read_answer();
  if (answer.delay_ns() < delay_ns_) {
    throw ConfigError("the controller's answer: delay_ns " + std::to_string(answer.delay_ns()) +
                      "; valid: at least the scenario's control_delay_ns, " +
                      std::to_string(delay_ns_));
  }
  const std::int64_t at_ns = process_.now() + answer.delay_ns();
  apply(answer, at_ns);
  if (session && answer.has_top_rank()) top_rank_(at_ns, *session, answer.top_rank());
  return answer;
}

void ControlLink::ask(const char* what, const HostSpec& host, const v1::SimulatedSession& session,
                      Rank rank) {
  const auto number = static_cast<std::uint16_t>(session.session().session());
  const nlohmann::json asked = {{"ask", what},
                                {"time_ns", process_.now()},
                                {"host", host.name},
                                {"session", number},
                                {"rank", rank}};
  const v1::ControllerAnswer answer = question(asked.dump(), number);
  if (answer.expire_ns() > 0) {
    process_.at(process_.now() + answer.expire_ns(),
                [this, &host, &session, rank] { ask("expire", host, session, rank); });
  }
}

}  // namespace tiercast::ns3_runtime
