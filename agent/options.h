// The command-line options that tiercast-send and tiercast-host share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/digest.h"
#include "proto/access.h"
#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "tiercast/v1/session.pb.h"

namespace CLI {
class App;  // its header takes seconds to compile
}

namespace tiercast::agent {

struct AgentOptions {
  std::string scheme = "sim";
  SessionConfig session;                     // complete after check()
  std::optional<std::uint64_t> seed;         // empty: check() draws one
  std::string name;                          // unique within a run
  std::string lab;                           // address, or "": stand-alone
  Duration lab_patience = Duration::zero();  // for which a lab that has died may be away
  control::Access access;                    // at addresses on TCP
  std::string trace;                         // a file; "-": standard output; "": none
  Duration duration = Duration::infinite();
  std::optional<v1::Keys> keys;  // with which messages are sealed, without a lab
  std::optional<Digest> object;  // of the object that is transferred, where it is known
  int realtime = 0;  // SCHED_RR priority of the main thread, 1 .. 99; 0: ordinary scheduling

  std::vector<std::string> assignments;  // values of --set
  std::string keys_file;                 // value of --keys
  std::string duration_text;             // value of --duration
  std::string lab_patience_text;         // value of --lab-patience

  // Adds the options to `app`, which must not outlive this object.
  void add_to(CLI::App& app);

  // To be called after parsing. Resolves scheme, seed, parameters and duration. ConfigError names
  // the option, its value and the choices.
  const Scheme& check();
};

// The value of an option, such as "90s". ConfigError names the option, the text and the forms.
Duration parse_time(const std::string& text, const char* option);

// Parses `arguments` (without the program's name). Empty if the program is to continue. Otherwise
// the exit status: 0 after --help or --version, 2 after an error, which was printed with a hint at
// --help.
std::optional<int> parse_command_line(CLI::App& app, std::vector<std::string> arguments);

}  // namespace tiercast::agent
