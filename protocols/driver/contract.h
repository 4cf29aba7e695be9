// What a core may ask of its runtime (core.h), checked in one place for all runtimes.
//
// A breach is a bug in the core, not bad input. ContractError names the scheme, the session, the
// call and the value. Nothing here allocates unless it throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/driver/feedback_sources.h"

namespace tiercast {

class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class Contract {
 public:
  static constexpr std::size_t kMaxTraceFields = 64;
  // `scheme` must outlive the object.
  Contract(const Scheme& scheme, const SessionConfig& config)
      : scheme_(&scheme),
        session_(config.session),
        layers_(static_cast<std::uint16_t>(config.layers)),
        members_(config.members) {}

  unsigned layers() const { return layers_; }
  FeedbackSources feedback_sources() const { return {*scheme_, members_}; }

  // `call`: the Sink function, for the error text.
  void check_layer(const char* call, Rank layer) const {
    if (layer >= layers_) [[unlikely]]
      refuse_layer(call, layer);
  }
  void check_rate(Rank layer, Rate rate) const {  // must be finite and 0 or more
    check_layer("set_rate", layer);
    const double value = rate.bytes_per_second();
    if (!(value >= 0 && value <= std::numeric_limits<double>::max())) [[unlikely]] {
      refuse_rate(layer, rate);
    }
  }
  // The headers that write_data() says it wrote into a message of `bytes`.
  void check_written(Rank layer, std::size_t written, std::size_t bytes) const {
    if (written > bytes) [[unlikely]]
      refuse_written(layer, written, bytes);
  }
  void check_record(std::string_view kind, std::span<const TraceField> fields) const;
  [[noreturn]] void refuse(std::string_view what) const;

  // Calls the core. A core has no exception to throw: what comes out of it becomes a ContractError
  // that names `call`. Errors of the runtime, which come from a Sink, pass as they are.
  template <class Call>
  decltype(auto) calling(const char* call, Call&& core) const {
    try {
      return core();
    } catch (...) {
      explain_thrown(call);
    }
  }

 private:
  // Only in a handler.
  [[noreturn]] void explain_thrown(const char* call) const;
  [[noreturn]] void refuse_layer(const char* call, Rank layer) const;
  [[noreturn]] void refuse_rate(Rank layer, Rate rate) const;
  [[noreturn]] void refuse_written(Rank layer, std::size_t written, std::size_t bytes) const;

  const Scheme* scheme_;
  std::uint16_t session_;
  std::uint16_t layers_;
  std::shared_ptr<const Members> members_;
};

// Checks that a core's timer lets time go on. It may be due several times at one instant, to catch
// up, but not for ever.
class TimerWatch {
 public:
  static constexpr std::uint32_t kMaxCalls = 1000;  // allowed at one instant

  // To be called before each call of timer().
  void note(Time now, const Contract& contract) {
    calls_ = now == at_ ? calls_ + 1 : 1;
    at_ = now;
    if (calls_ > kMaxCalls) [[unlikely]] {
      contract.refuse("next_timer: timer() was called " + std::to_string(kMaxCalls) +
                      " times at one instant, and is still due");
    }
  }

 private:
  Time at_ = Time::never();
  std::uint32_t calls_ = 0;
};

}  // namespace tiercast
