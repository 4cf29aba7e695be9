// A file of p4c's Simple Test Framework (STF): commands, one after the other, as text.
//
// The grammar is that of p4c's tools/stf and of its bmv2 runner: a command starts a line with its
// keyword (in any case) and lasts until the next line that starts with one; `#` starts a comment.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiercast::stf {

// The text is not STF: names the line, its text and what was expected.
class ScriptError : public std::runtime_error {
 public:
  ScriptError(int line, const std::string& what)
      : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

enum class Verb {
  kAdd,           // name [priority] matches action(arguments) [= label]
  kSetDefault,    // name action(arguments)
  kRemoveAll,     //
  kCheckCounter,  // name(index) [packets|bytes comparison number]
  kPacket,        // port data
  kExpect,        // port [data]: nothing: any packet
  kNoPacket,      // no packet is expected at all
  kWait,          //
  kControl,       // one of simple_switch_CLI's commands: name is the command, numbers its operands
};

using Pair = std::pair<std::string, std::string>;  // a key field or parameter, and its value

struct CounterCheck {
  bool bytes = false;      // else packets
  std::string comparison;  // == != < <= > >=
  std::string number;
};

struct Command {
  Verb verb = Verb::kWait;
  int line = 0;       // 1 is the first
  std::string name;   // of the table, counter or control command
  std::string index;  // of the counter: a number or a label ($A)
  std::optional<std::string> priority;
  std::vector<Pair> matches;
  std::string action;
  std::vector<Pair> arguments;
  std::string label;  // of the entry
  std::string port;
  std::string data;           // hexadecimal digits, and * for any digit
  bool exact_length = false;  // `$`: nothing may follow the data
  std::optional<CounterCheck> check;
  std::vector<std::string> operands;
};

// Throws ScriptError.
std::vector<Command> parse_script(std::string_view text);

}  // namespace tiercast::stf
