// Errors of control-plane requests, and how P4Runtime reports the errors of a batch.
#pragma once

#include <grpcpp/support/status.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/engine/control/status.h"

namespace tiercast::vswitch {

// A request, or an update of a batch, failed.
class RequestError : public std::runtime_error {
 public:
  RequestError(grpc::StatusCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  grpc::StatusCode code() const { return code_; }
  grpc::Status status() const { return {code_, what()}; }

 private:
  grpc::StatusCode code_;
};

inline RequestError invalid(const std::string& message) {
  return {grpc::INVALID_ARGUMENT, message};
}

grpc::Status to_grpc(const engine::Status& status);
// Throws RequestError if status is not ok.
void require(const engine::Status& status);

// The status of a batch, from one status per update or entity. OK if all are OK. Otherwise UNKNOWN
// with a google.rpc.Status, whose details are one p4.v1.Error for each, in order (P4Runtime
// specification, "Error Reporting").
grpc::Status batch_status(const std::vector<grpc::Status>& each);

}  // namespace tiercast::vswitch
