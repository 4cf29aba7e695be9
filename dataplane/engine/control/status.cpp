#include "dataplane/engine/control/status.h"

#include "dataplane/engine/control/control.h"

namespace tiercast::engine {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk: return "ok";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kAlreadyExists: return "already_exists";
    case ErrorCode::kPermissionDenied: return "permission_denied";
    case ErrorCode::kResourceExhausted: return "resource_exhausted";
    case ErrorCode::kFailedPrecondition: return "failed_precondition";
    case ErrorCode::kUnimplemented: return "unimplemented";
  }
  return "unknown";
}

const char* to_string(MatchKind kind) {
  switch (kind) {
    case MatchKind::kExact: return "exact";
    case MatchKind::kLpm: return "lpm";
    case MatchKind::kTernary: return "ternary";
    case MatchKind::kRange: return "range";
    case MatchKind::kOptional: return "optional";
  }
  return "unknown";
}

}  // namespace tiercast::engine
