// A file of p4c's Simple Test Framework (STF): a list of commands in text form.
//
// The grammar is that of p4c's tools/stf and of its bmv2 runner. A command starts on a line with
// its keyword (in upper or lower case) and continues until the next line with a keyword. `#` starts
// a comment.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiercast::stf {

// The text is not STF. The error names the line, its text and what was expected.
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
  kExpect,        // port [data]; without data: any packet
  kNoPacket,      // no packet at all is expected
  kWait,          //
  kControl,  // one of simple_switch_CLI's commands: name is the command, numbers are its operands
};

using Pair = std::pair<std::string, std::string>;  // a key field or parameter, and its value

struct CounterCheck {
  bool bytes = false;      // otherwise packets
  std::string comparison;  // == != < <= > >=
  std::string number;
};

struct Command {
  Verb verb = Verb::kWait;
  int line = 0;       // counted from 1
  std::string name;   // of the table, counter or control command
  std::string index;  // of the counter: a number, or a label ($A)
  std::optional<std::string> priority;
  std::vector<Pair> matches;
  std::string action;
  std::vector<Pair> arguments;
  std::string label;  // of the entry
  std::string port;
  std::string data;           // hexadecimal digits, with * for any digit
  bool exact_length = false;  // `$`: nothing may follow the data
  std::optional<CounterCheck> check;
  std::vector<std::string> operands;
};

// Throws ScriptError.
std::vector<Command> parse_script(std::string_view text);

}  // namespace tiercast::stf
