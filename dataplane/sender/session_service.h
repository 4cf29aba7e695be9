// Serves tiercast.v1.Sender for a running Sender.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/sender/sender.h"
#include "tiercast/v1/sender.grpc.pb.h"

namespace tiercast::sender {

// Which files a caller may name as a session's input.
struct InputFiles {
  bool none = false;
  std::string root;  // only those below this folder; "": any that the sender can read
};

class SessionService final : public v1::Sender::Service {
 public:
  // `running`: the sessions that the sender was started with, complete (requests_of), whose files
  // are its user's choice.
  // `largest_packet`: IP bytes that fit into its buffers. The sender must outlive the object.
  SessionService(Sender& sender, const v1::SessionList& running, std::uint32_t largest_packet,
                 InputFiles files);

  grpc::Status StartSessions(grpc::ServerContext* context, const v1::StartSessionsRequest* request,
                             v1::StartSessionsResponse* response) override;
  grpc::Status ChangeSession(grpc::ServerContext* context, const v1::ChangeSessionRequest* request,
                             v1::ChangeSessionResponse* response) override;
  grpc::Status StopSession(grpc::ServerContext* context, const v1::StopSessionRequest* request,
                           v1::StopSessionResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;

 private:
  struct Running {
    v1::SessionSpec spec;  // with count = 1
    bool is_callers;       // started by a call
  };

  // As requests_of(). Throws ConfigError also if the packets would be too large, or a caller names
  // a file that it may not name.
  std::vector<SessionRequest> checked(v1::SessionSpec& spec, bool is_callers) const;
  grpc::Status not_found(std::uint32_t session) const;  // the message lists the running sessions

  Sender& sender_;
  const std::uint32_t largest_packet_;
  const InputFiles files_;
  std::mutex mutex_;  // guards the members below, and keeps calls in order
  std::map<std::uint32_t, Running> running_;
};

}  // namespace tiercast::sender
