// How control-plane operations report errors: a code that maps one to one to a canonical P4Runtime
// code, and a text that names the place, the value seen and the valid choices.
#pragma once

#include <string>
#include <utility>

namespace tiercast::engine {

enum class ErrorCode {
  kOk,
  kInvalidArgument,     // wrong width, name, match kind, number of arguments, ...
  kNotFound,            // no such table, entry, group, session, cell
  kAlreadyExists,       // the entry, group or session exists already
  kPermissionDenied,    // a constant default action
  kResourceExhausted,   // the object has reached its declared size
  kFailedPrecondition,  // another object still uses this one
  kUnimplemented,       // the object exists in the program but cannot be used this way
};

// "not_found", "already_exists", ...
const char* to_string(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Only if ok().
  const T& value() const& { return value_; }
  T&& value() && { return std::move(value_); }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  Status status_;
  T value_{};
};

}  // namespace tiercast::engine
