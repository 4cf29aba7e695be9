// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/control_link.h"

#include <google/protobuf/util/json_util.h>
#include <ns3/simulator.h>

#include <nlohmann/json.hpp>

#include "dataplane/updates/switch_updates.h"
#include "ns3/clock.h"
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

}  // namespace

ControlLink::ControlLink(std::istream& answers, VirtualNetwork& network, Records& records,
                         std::uint64_t seed, TopRank top_rank)
    : answers_(answers),
      network_(network),
      records_(records),
      rng_(seed),
      top_rank_(std::move(top_rank)) {}

void ControlLink::apply_first_answer() { apply(read_answer(), std::nullopt); }

v1::ControllerAnswer ControlLink::read_answer() {
  std::string line;
  if (!std::getline(answers_, line)) throw std::runtime_error("the controller is gone");
  v1::ControllerAnswer answer;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &answer);
  if (!status.ok()) {
    throw ConfigError("the controller's answer: " + std::string(status.message()) + ": " + line);
  }
  return answer;
}

void ControlLink::apply(const v1::ControllerAnswer& answer, std::optional<std::uint16_t> session) {
  for (const v1::SwitchUpdate& update : answer.updates()) {
    const engine::Status status = updates::apply(network_.at(update.switch_()), update);
    if (!status.ok()) {
      throw ConfigError(update.switch_() + " refuses " + update.ShortDebugString() + ": " +
                        status.message());
    }
  }
  if (session && answer.has_top_rank()) top_rank_(*session, answer.top_rank());
}

void ControlLink::report(const HostSpec& host, const v1::SimulatedSession& session, Rank rank,
                         bool joins) {
  const char* what = joins ? "join" : "leave";
  const Reported reported{&host, &session, rank};
  if (const auto repeat = repeats_.find(reported); repeat != repeats_.end()) {
    repeat->second.Cancel();
    repeats_.erase(repeat);
  }
  if (arrives(what, host, session, rank)) return;
  repeats_[reported] = ns3::Simulator::Schedule(
      ns3::Seconds(kRepeatWithinS * rng_.uniform()),
      [this, what, &host, &session, rank] { arrives(what, host, session, rank); });
}

bool ControlLink::arrives(const char* what, const HostSpec& host,
                          const v1::SimulatedSession& session, Rank rank) {
  const engine::PortConfig port =
      network_.at(host.switch_name).port_config(host.switch_port).value();
  const double lost = share_lost(port.rx_wire);
  if (lost > 0 && rng_.uniform() < lost) return false;
  ns3::Simulator::Schedule(ns3::NanoSeconds(port.rx_delay_ns),
                           [this, what, &host, &session, rank] { ask(what, host, session, rank); });
  return true;
}

void ControlLink::report(const v1::PortChange& change) {
  if (!change.wire().has_up() && !change.has_delay_ns()) return;
  nlohmann::json question = {{"ask", "port"},
                             {"time_ns", now_ns()},
                             {"switch", change.switch_()},
                             {"port", change.port()}};
  if (change.wire().has_up()) question["up"] = change.wire().up();
  if (change.has_delay_ns()) question["delay_ns"] = change.delay_ns();
  records_.send_now(question.dump());
  const v1::ControllerAnswer answer = read_answer();
  ns3::Simulator::Schedule(ns3::NanoSeconds(answer.delay_ns()),
                           [this, answer] { apply(answer, std::nullopt); });
}

void ControlLink::ask(const char* what, const HostSpec& host, const v1::SimulatedSession& session,
                      Rank rank) {
  const auto number = static_cast<std::uint16_t>(session.session().session());
  const nlohmann::json question = {{"ask", what},
                                   {"time_ns", now_ns()},
                                   {"host", host.name},
                                   {"session", number},
                                   {"rank", rank}};
  records_.send_now(question.dump());
  const v1::ControllerAnswer answer = read_answer();
  ns3::Simulator::Schedule(ns3::NanoSeconds(answer.delay_ns()),
                           [this, answer, number] { apply(answer, number); });
  if (answer.expire_ns() > 0) {
    ns3::Simulator::Schedule(ns3::NanoSeconds(answer.expire_ns()),
                             [this, &host, &session, rank] { ask("expire", host, session, rank); });
  }
}

}  // namespace tiercast::ns3_runtime
