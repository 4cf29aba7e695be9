// The command line of tiercast-switch, parsed and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "dataplane/switch/trace_file.h"
#include "proto/access.h"

namespace tiercast::vswitch {

// A wrong argument. The text says where, the value seen and the valid choices.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The values of an option such as `--port 1=eth0,rate=6Mbit/s,...`.
struct PortOption {
  std::uint32_t number = 0;  // 1..510
  std::string interface;
  engine::PortConfig link;
};

// Whether the program is compiled to native code: not at all; in the background, while packets run
// through the interpreter; or before the first packet.
enum class NativeMode { kOff, kAuto, kWait };

struct Options {
  std::string name = "switch";        // for log lines
  std::string json_path;              // empty: the controller sends the program
  std::string p4info_path;            // empty: no P4Info for the program in json_path
  std::uint64_t device_id = 0;        // the P4Runtime device id; not 0
  std::optional<std::uint64_t> seed;  // of random numbers; nothing: the device id
  std::vector<PortOption> ports;
  std::string grpc_address;      // "unix:/path" or "host:port"; empty: no control plane
  control::Access access;        // at grpc_address
  std::uint32_t cpu_port = 510;  // 1..510
  std::string depth_register;    // engine::SwitchOptions::depth_register
  unsigned workers = 1;          // number of threads; at most one per port
  unsigned max_sleeps = 0;       // in a second, of each thread; 0: as often as it likes
  NativeMode native = NativeMode::kAuto;
  std::string trace_path;          // JSON lines; "-": standard output; empty: no trace
  std::uint64_t trace_one_in = 1;  // trace one in this many of the frames that trace_filter selects
  TraceFilter trace_filter;
  bool sandbox = true;             // gives up rights once the sockets are open
  std::string log_level = "info";  // trace, debug, info, warning, error, off
};

enum class ParseOutcome { kRun, kExitOk, kExitUsage };

// --help and --version print to stdout (kExitOk). A wrong argument prints an error to stderr
// (kExitUsage). Otherwise `options` is complete and consistent.
ParseOutcome parse_command_line(int argc, const char* const* argv, Options& options);

// For several switches in one process. Options before the first --switch apply to all switches;
// those after each --switch apply to that one. Without --switch there is one switch. No two may
// have the same device id, interface, gRPC address or trace file.
ParseOutcome parse_switches(int argc, const char* const* argv, std::vector<Options>& switches);

// Throw OptionError.
PortOption parse_port(std::string_view text, std::uint32_t cpu_port = 510);
// "6Mbit/s" -> 6e6 bit/s, with the units of base/quantity.h. 0 or "0bit/s" means unlimited.
double parse_rate(std::string_view text);
// "5ms" -> 5'000'000 ns. Units are ns, us, ms and s; 0 needs none. At most 60 s.
std::int64_t parse_duration(std::string_view text);

}  // namespace tiercast::vswitch
