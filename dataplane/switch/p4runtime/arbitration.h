// Who is primary: P4Runtime's client arbitration for one device, without any I/O.
// Source of the rules: P4Runtime specification, "Client Arbitration and Controller Replication".
// Not thread-safe.
#pragma once

#include <grpcpp/support/status.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tiercast::vswitch {

using StreamId = std::uint64_t;  // one open StreamChannel

struct ElectionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const ElectionId&) const = default;
};

// What a stream must be sent (a MasterArbitrationUpdate).
struct ArbitrationNotice {
  StreamId stream = 0;
  std::string role;
  std::optional<ElectionId> highest;  // ever seen for the role; absent: there was no primary yet
  grpc::StatusCode code = grpc::OK;   // OK: you are primary; ALREADY_EXISTS: another is;
                                      // NOT_FOUND: nobody is
};

class Arbitration {
 public:
  static constexpr std::size_t kMaxStreamsPerRole = 16;

  explicit Arbitration(std::uint64_t device_id) : device_id_(device_id) {}

  // A MasterArbitrationUpdate from a stream. Returns who must be told, in order, a new primary
  // last. Throws RequestError, upon which the stream ends: NOT_FOUND (device), INVALID_ARGUMENT
  // (election id in use), FAILED_PRECONDITION (a live stream changes device or role),
  // RESOURCE_EXHAUSTED (more than kMaxStreamsPerRole).
  std::vector<ArbitrationNotice> update(StreamId stream, std::uint64_t device_id,
                                        const std::string& role,
                                        std::optional<ElectionId> election_id);

  // The stream has ended. Returns the streams to notify.
  std::vector<ArbitrationNotice> disconnect(StreamId stream);

  bool is_primary(StreamId stream) const;
  std::vector<StreamId> primaries() const;  // of every role that has one

  // For requests that name their sender. Throws RequestError: NOT_FOUND (device or role),
  // PERMISSION_DENIED (not the primary).
  void require_primary(std::uint64_t device_id, const std::string& role,
                       std::optional<ElectionId> election_id) const;
  // Throws RequestError NOT_FOUND.
  void require_device(std::uint64_t device_id) const;

 private:
  struct Role {
    std::optional<ElectionId> highest;
    std::map<StreamId, std::optional<ElectionId>> streams;
    std::optional<StreamId> primary() const;
  };

  static ArbitrationNotice notice(StreamId stream, const std::string& name, const Role& role);
  static std::vector<ArbitrationNotice> notify_all(const std::string& name, const Role& role);

  std::uint64_t device_id_;
  std::map<std::string, Role> roles_;
  std::map<StreamId, std::string> role_of_;
};

}  // namespace tiercast::vswitch
