#include "dataplane/switch/p4runtime/arbitration.h"

#include <fmt/format.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {

std::optional<StreamId> Arbitration::Role::primary() const {
  if (!highest) return std::nullopt;
  for (const auto& [stream, election_id] : streams)
    if (election_id == highest) return stream;
  return std::nullopt;
}

ArbitrationNotice Arbitration::notice(StreamId stream, const std::string& name, const Role& role) {
  const std::optional<StreamId> primary = role.primary();
  return {stream, name, role.highest,
          !primary             ? grpc::NOT_FOUND
          : *primary == stream ? grpc::OK
                               : grpc::ALREADY_EXISTS};
}

std::vector<ArbitrationNotice> Arbitration::notify_all(const std::string& name, const Role& role) {
  const std::optional<StreamId> primary = role.primary();
  std::vector<ArbitrationNotice> notices;
  for (const auto& [stream, election_id] : role.streams)
    if (stream != primary) notices.push_back(notice(stream, name, role));
  if (primary) notices.push_back(notice(*primary, name, role));
  return notices;
}

std::vector<ArbitrationNotice> Arbitration::update(StreamId stream, std::uint64_t device_id,
                                                   const std::string& role_name,
                                                   std::optional<ElectionId> election_id) {
  const auto live = role_of_.find(stream);
  if (live != role_of_.end()) {
    if (device_id != device_id_)
      throw RequestError(
          grpc::FAILED_PRECONDITION,
          fmt::format("device_id {}: this stream is for device {}", device_id, device_id_));
    if (role_name != live->second)
      throw RequestError(grpc::FAILED_PRECONDITION,
                         fmt::format("role '{}': this stream is for role '{}'; open a new one",
                                     role_name, live->second));
  } else {
    require_device(device_id);
  }

  const bool is_new = !roles_.contains(role_name);
  if (is_new && roles_.size() >= kMaxRoles)
    throw RequestError(grpc::RESOURCE_EXHAUSTED,
                       fmt::format("role '{}' is new, and there are {} roles, which is the maximum",
                                   role_name, roles_.size()));
  Role& role = roles_[role_name];
  for (const auto& [other, other_id] : role.streams)
    if (election_id && other != stream && other_id == election_id)
      throw RequestError(grpc::INVALID_ARGUMENT,
                         fmt::format("election_id ({}, {}) is used by another controller of role "
                                     "'{}'",
                                     election_id->high, election_id->low, role_name));
  if (live == role_of_.end() && role.streams.size() >= kMaxStreamsPerRole)
    throw RequestError(grpc::RESOURCE_EXHAUSTED,
                       fmt::format("role '{}' has {} open streams, which is the maximum", role_name,
                                   role.streams.size()));

  const bool was_primary = role.primary() == stream;
  role_of_[stream] = role_name;
  role.streams[stream] = election_id;
  if (election_id && (!role.highest || *election_id >= *role.highest)) {
    role.highest = election_id;
    return notify_all(role_name, role);
  }
  if (was_primary) return notify_all(role_name, role);
  return {notice(stream, role_name, role)};
}

std::vector<ArbitrationNotice> Arbitration::disconnect(StreamId stream) {
  const auto live = role_of_.find(stream);
  if (live == role_of_.end()) return {};
  const std::string name = live->second;
  Role& role = roles_[name];
  const bool was_primary = role.primary() == stream;
  role.streams.erase(stream);
  role_of_.erase(live);
  if (was_primary) return notify_all(name, role);
  if (role.streams.empty() && !role.highest) roles_.erase(name);  // nothing of it is to be kept
  return {};
}

bool Arbitration::is_primary(StreamId stream) const {
  const auto live = role_of_.find(stream);
  return live != role_of_.end() && roles_.at(live->second).primary() == stream;
}

std::vector<StreamId> Arbitration::primaries() const {
  std::vector<StreamId> streams;
  for (const auto& [name, role] : roles_)
    if (const auto primary = role.primary()) streams.push_back(*primary);
  return streams;
}

void Arbitration::require_device(std::uint64_t device_id) const {
  if (device_id != device_id_)
    throw RequestError(grpc::NOT_FOUND, fmt::format("device_id {} is unknown; this is device {}",
                                                    device_id, device_id_));
}

void Arbitration::require_primary(std::uint64_t device_id, const std::string& role_name,
                                  std::optional<ElectionId> election_id) const {
  require_device(device_id);
  const auto role = roles_.find(role_name);
  if (role == roles_.end() && !role_name.empty())
    throw RequestError(grpc::NOT_FOUND, fmt::format("role '{}' is unknown", role_name));
  const bool has_primary = role != roles_.end() && role->second.primary().has_value();
  if (!has_primary)
    throw RequestError(grpc::PERMISSION_DENIED,
                       fmt::format("role '{}' has no primary: open a StreamChannel and send a "
                                   "MasterArbitrationUpdate first",
                                   role_name));
  if (!election_id || election_id != role->second.highest)
    throw RequestError(grpc::PERMISSION_DENIED,
                       election_id ? fmt::format("election_id ({}, {}) is not the primary's",
                                                 election_id->high, election_id->low)
                                   : std::string("no election_id: only the primary may do this"));
}

}  // namespace tiercast::vswitch
