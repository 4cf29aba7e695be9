#include "dataplane/switch/p4runtime/translate/errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "google/rpc/status.pb.h"
#include "p4/v1/p4runtime.pb.h"

namespace tiercast::vswitch {

grpc::Status to_grpc(const engine::Status& status) {
  using engine::ErrorCode;
  switch (status.code()) {
    case ErrorCode::kOk: return grpc::Status::OK;
    case ErrorCode::kInvalidArgument: return {grpc::INVALID_ARGUMENT, status.message()};
    case ErrorCode::kNotFound: return {grpc::NOT_FOUND, status.message()};
    case ErrorCode::kAlreadyExists: return {grpc::ALREADY_EXISTS, status.message()};
    case ErrorCode::kPermissionDenied: return {grpc::PERMISSION_DENIED, status.message()};
    case ErrorCode::kResourceExhausted: return {grpc::RESOURCE_EXHAUSTED, status.message()};
    case ErrorCode::kFailedPrecondition: return {grpc::FAILED_PRECONDITION, status.message()};
    case ErrorCode::kUnimplemented: return {grpc::UNIMPLEMENTED, status.message()};
  }
  return {grpc::INTERNAL, status.message()};
}

void require(const engine::Status& status) {
  if (!status.ok()) throw RequestError(to_grpc(status).error_code(), status.message());
}

grpc::Status batch_status(const std::vector<grpc::Status>& each) {
  const auto failed = std::count_if(each.begin(), each.end(),
                                    [](const grpc::Status& status) { return !status.ok(); });
  if (failed == 0) return grpc::Status::OK;
  google::rpc::Status report;
  report.set_code(grpc::UNKNOWN);
  report.set_message(fmt::format("{} of {} failed: the details say which", failed, each.size()));
  for (const grpc::Status& status : each) {
    p4::v1::Error error;
    error.set_canonical_code(status.error_code());
    error.set_message(status.error_message());
    report.add_details()->PackFrom(error);
  }
  return {grpc::UNKNOWN, report.message(), report.SerializeAsString()};
}

}  // namespace tiercast::vswitch
