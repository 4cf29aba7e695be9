// The schemes, by name. A new scheme is a folder, either below schemes/ with a line in
// schemes/schemes.txt, or anywhere else (docs/add-a-scheme.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "protocols/core/core.h"
#include "protocols/core/lies.h"
#include "protocols/core/parameters.h"

namespace tiercast {

struct Scheme {
  std::string_view name;  // "sim"
  std::uint8_t id;        // wire::SchemeId
  // Receivers subscribe to as many layers as their path carries. If false, a session has one rate,
  // and `layers` in its SessionConfig is 1.
  bool layered;
  // Whether the P4 program can aggregate its feedback (docs/p4.md, "Feedback aggregation").
  bool aggregated = false;
  // Where the receiver's number, of 32 bits, is in all of its feedback: bytes from the start of the
  // message. 0: its feedback names no receiver.
  std::size_t feedback_source_at = 0;
  std::span<const ParameterInfo> parameters;
  // The kinds of records that its cores trace, such as "sim.round". A lab accepts no others.
  std::span<const std::string_view> records;
  // The lies that a member can tell in its own messages, for experiments. All members have those of
  // driver/lying_receiver.h besides.
  std::span<const Lie> lies = {};
  // Both check `config` and allocate all memory that the core will need. ConfigError names the
  // member, its value and its range.
  std::unique_ptr<SenderCore> (*make_sender)(const SessionConfig& config);
  std::unique_ptr<ReceiverCore> (*make_receiver)(const SessionConfig& config);
};

// A scheme's `make_sender` or `make_receiver`, whose core checks its session itself.
template <class Core, class Role>
std::unique_ptr<Role> make_core(const SessionConfig& config) {
  return std::make_unique<Core>(config);
}

// Made from schemes/schemes.txt by schemes/schemes.cmake. ConfigError if one of them is not
// `checked`.
std::span<const Scheme> schemes();

// The scheme of the folder with this name. ConfigError, with what is wrong, unless it is called as
// its folder, its parameters and records begin with its name, each parameter is there once with a
// default inside its range, and it makes both cores.
Scheme checked(std::string_view folder, const Scheme& scheme);

// ConfigError for an unknown name; the text lists the known ones.
const Scheme& find_scheme(std::string_view name);

}  // namespace tiercast
