// Decides which controller is primary: P4Runtime's client arbitration for one device, without any
// I/O. The rules are those of the P4Runtime specification, "Client Arbitration and Controller
// Replication". Not thread-safe.
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

// A notice (MasterArbitrationUpdate) to be sent to a stream.
struct ArbitrationNotice {
  StreamId stream = 0;
  std::string role;
  std::optional<ElectionId> highest;  // highest id ever seen for the role; absent: there has been
                                      // no primary
  grpc::StatusCode code = grpc::OK;   // OK: you are primary; ALREADY_EXISTS: another is; NOT_FOUND:
                                      // there is none
};

class Arbitration {
 public:
  static constexpr std::size_t kMaxStreamsPerRole = 16;
  // A role's highest election id is kept for ever, so names are, too.
  static constexpr std::size_t kMaxRoles = 64;

  explicit Arbitration(std::uint64_t device_id) : device_id_(device_id) {}

  // Takes a MasterArbitrationUpdate from a stream. Returns the streams to notify, in order; a new
  // primary comes last. Throws RequestError, which ends the stream: NOT_FOUND (device),
  // INVALID_ARGUMENT (election id in use), FAILED_PRECONDITION (a live stream changes its device or
  // role), RESOURCE_EXHAUSTED (more than kMaxStreamsPerRole or kMaxRoles).
  std::vector<ArbitrationNotice> update(StreamId stream, std::uint64_t device_id,
                                        const std::string& role,
                                        std::optional<ElectionId> election_id);

  // To be called when a stream has ended. Returns the streams to notify.
  std::vector<ArbitrationNotice> disconnect(StreamId stream);

  bool is_primary(StreamId stream) const;
  std::vector<StreamId> primaries() const;  // one for every role that has a primary

  // For requests that name their sender. Throws RequestError: NOT_FOUND (device or role),
  // PERMISSION_DENIED (the sender is not primary).
  void require_primary(std::uint64_t device_id, const std::string& role,
                       std::optional<ElectionId> election_id) const;
  // Throws RequestError NOT_FOUND for another device.
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
