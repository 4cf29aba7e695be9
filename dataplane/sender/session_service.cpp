#include "dataplane/sender/session_service.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/sender/sessions/session_list.h"
#include "protocols/base/rng.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {
namespace {

constexpr std::size_t kMostSessions = wire::kMaxSession + 1;
constexpr std::size_t kListed = 20;  // most ranges of numbers in an error text

grpc::Status invalid(const ConfigError& error) {
  return {grpc::StatusCode::INVALID_ARGUMENT, error.what()};
}

// The numbers of the running sessions: "1, 4 to 100".
template <class Running>
std::string numbers_of(const std::map<std::uint32_t, Running>& running) {
  std::vector<std::string> ranges;
  for (auto first = running.begin(); first != running.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != running.end() && next->first == last->first + 1) last = next++;
    if (ranges.size() == kListed) {
      ranges.emplace_back("...");
      break;
    }
    ranges.push_back(first == last ? fmt::to_string(first->first)
                                   : fmt::format("{} to {}", first->first, last->first));
    first = next;
  }
  return ranges.empty() ? "none" : fmt::format("{}", fmt::join(ranges, ", "));
}

// The `count` sessions of `spec`, which has its seed, each as a spec of its own.
std::vector<v1::SessionSpec> single(const v1::SessionSpec& spec) {
  std::vector<v1::SessionSpec> all;
  const std::uint32_t count = spec.count() == 0 ? 1 : spec.count();
  for (std::uint32_t i = 0; i < count; ++i) {
    v1::SessionSpec& one = all.emplace_back(spec);
    one.set_session(spec.session() + i);
    one.set_count(1);
    one.set_seed(spec.seed() + i);
  }
  return all;
}

}  // namespace

SessionService::SessionService(Sender& sender, const v1::SessionList& running,
                               std::uint32_t largest_packet, InputFiles files)
    : sender_(sender), largest_packet_(largest_packet), files_(std::move(files)) {
  for (const v1::SessionSpec& spec : running.sessions()) {
    for (const v1::SessionSpec& one : single(spec)) running_.insert({one.session(), {one, false}});
  }
}

std::vector<SessionRequest> SessionService::checked(v1::SessionSpec& spec, bool is_callers) const {
  if (is_callers && files_.none && !spec.input().empty()) {
    throw ConfigError(fmt::format(
        "input {}: callers over TCP may name no file; valid: a sender with --input-root",
        spec.input()));
  }
  std::vector<SessionRequest> requests = requests_of(spec, is_callers ? files_.root : "");
  const std::uint32_t size = requests.front().config.packet_size;
  if (size > largest_packet_) {
    throw ConfigError(
        fmt::format("packet_size = {} is above {}, the largest that this sender was started for "
                    "(--packet-size)",
                    size, largest_packet_));
  }
  return requests;
}

grpc::Status SessionService::not_found(std::uint32_t session) const {
  return {grpc::StatusCode::NOT_FOUND,
          fmt::format("session {} is not running; running: {}", session, numbers_of(running_))};
}

grpc::Status SessionService::StartSessions(grpc::ServerContext*,
                                           const v1::StartSessionsRequest* request,
                                           v1::StartSessionsResponse*) {
  const std::lock_guard lock(mutex_);
  try {
    std::vector<SessionRequest> requests;
    std::vector<v1::SessionSpec> specs;
    for (v1::SessionSpec spec : request->sessions()) {
      // First, because it checks and completes the spec.
      for (SessionRequest& one : checked(spec, true)) requests.push_back(std::move(one));
      if (requests.size() > kMostSessions) {
        throw ConfigError(fmt::format("sessions: more than {} in one call", kMostSessions));
      }
      for (v1::SessionSpec& one : single(spec)) {
        if (running_.contains(one.session())) {
          return {grpc::StatusCode::ALREADY_EXISTS,
                  fmt::format("session {} is running already", one.session())};
        }
        specs.push_back(std::move(one));
      }
    }
    sender_.start_sessions(requests);
    for (const v1::SessionSpec& one : specs) running_.insert({one.session(), {one, true}});
  } catch (const ConfigError& error) {
    return invalid(error);
  }
  return grpc::Status::OK;
}

grpc::Status SessionService::ChangeSession(grpc::ServerContext*,
                                           const v1::ChangeSessionRequest* request,
                                           v1::ChangeSessionResponse*) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(request->session());
  if (found == running_.end()) return not_found(request->session());
  const bool is_callers = found->second.is_callers;
  v1::SessionSpec changed = found->second.spec;
  for (const auto& [name, value] : request->parameters()) {
    (*changed.mutable_parameters())[name] = value;
  }
  if (request->has_top_rank()) changed.set_top_rank(request->top_rank());
  const bool restarts = !request->parameters().empty();
  // With the old seed its packets would be numbered as before, and receivers would take them for
  // late ones. This one follows from the old one, so that it can be repeated.
  if (restarts) changed.set_seed(Rng(changed.seed()).next());
  try {
    const std::vector<SessionRequest> requests = checked(changed, is_callers);
    if (restarts) {
      // Try to make the new session, so that an error comes before the running one is stopped.
      const Session trial(requests.front(), 0, Time::zero());
      sender_.stop_session(static_cast<std::uint16_t>(request->session()));
      running_.erase(found);
      sender_.start_sessions(requests);
      running_.insert({request->session(), {changed, is_callers}});
    } else if (request->has_top_rank()) {
      sender_.set_membership(static_cast<std::uint16_t>(request->session()), request->top_rank());
      found->second.spec = std::move(changed);
    }
  } catch (const ConfigError& error) {
    return invalid(error);
  }
  return grpc::Status::OK;
}

grpc::Status SessionService::StopSession(grpc::ServerContext*,
                                         const v1::StopSessionRequest* request,
                                         v1::StopSessionResponse*) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(request->session());
  if (found == running_.end()) return not_found(request->session());
  try {
    sender_.stop_session(static_cast<std::uint16_t>(request->session()));
  } catch (const ConfigError& error) {
    return invalid(error);
  }
  running_.erase(found);
  return grpc::Status::OK;
}

grpc::Status SessionService::ListSessions(grpc::ServerContext*, const v1::ListSessionsRequest*,
                                          v1::ListSessionsResponse* response) {
  const std::lock_guard lock(mutex_);
  std::map<std::uint32_t, v1::SessionState*> states;
  for (const auto& [number, one] : running_) {
    v1::SessionState* const state = response->add_sessions();
    *state->mutable_session() = one.spec;
    state->mutable_session()->clear_keys();  // observers see this
    states.emplace(number, state);
  }
  const Statistics statistics = sender_.statistics(true);
  response->set_time_ns(statistics.taken.ns());
  for (const LayerStatistics& layer : statistics.layers) {
    const auto found = states.find(layer.session);
    if (found == states.end()) continue;  // this session is ending
    v1::LayerState& out = *found->second->add_layers();
    out.set_rank(layer.rank);
    out.set_rate_bps(layer.rate.bytes_per_second());
    out.set_generated_packets(layer.generated);
    out.set_sent_packets(layer.sent);
    out.set_dropped_packets(layer.dropped);
  }
  return grpc::Status::OK;
}

}  // namespace tiercast::sender
