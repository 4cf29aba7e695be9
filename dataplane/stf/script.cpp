#include "dataplane/stf/script.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tiercast::stf {

namespace {

struct Token {
  std::string text;
  int line;
  bool symbol;  // punctuation; otherwise a word
};

struct Keyword {
  const char* name;
  Verb verb;
};
constexpr Keyword kKeywords[] = {{"add", Verb::kAdd},
                                 {"setdefault", Verb::kSetDefault},
                                 {"remove", Verb::kRemoveAll},
                                 {"check_counter", Verb::kCheckCounter},
                                 {"packet", Verb::kPacket},
                                 {"expect", Verb::kExpect},
                                 {"no_packet", Verb::kNoPacket},
                                 {"wait", Verb::kWait}};
constexpr const char* kControls[] = {
    "mirroring_add",  "mirroring_add_mc", "mirroring_delete", "mirroring_get",
    "mc_mgrp_create", "mc_node_create",   "mc_node_update",   "mc_node_associate",
    "counter_read",   "counter_write",    "register_read",    "register_write",
    "register_reset", "meter_get_rates",  "meter_set_rates",  "meter_array_set_rates"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<Verb> verb_of(const std::string& word) {
  for (const Keyword& k : kKeywords) {
    if (word == k.name) return k.verb;
  }
  const bool control =
      std::find(std::begin(kControls), std::end(kControls), word) != std::end(kControls);
  return control ? std::optional(Verb::kControl) : std::nullopt;
}

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_$.[]*").find(c) != std::string_view::npos;
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++i;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"') {
      const std::size_t end = text.find_first_of("\"\n", i + 1);
      if (end == text.npos || text[end] == '\n') throw ScriptError(line, "a \" without its end");
      tokens.push_back({std::string(text.substr(i + 1, end - i - 1)), line, false});
      i = end + 1;
    } else if (in_word(c)) {
      std::size_t end = i;
      while (end < text.size() && in_word(text[end])) ++end;
      tokens.push_back({std::string(text.substr(i, end - i)), line, false});
      i = end;
    } else if (std::string_view(":,()/").find(c) != std::string_view::npos) {
      tokens.push_back({std::string(1, c), line, true});
      ++i;
    } else if (std::string_view("=<>!-").find(c) != std::string_view::npos) {
      const std::string_view two = text.substr(i, 2);
      const bool is_two = two == "==" || two == "!=" || two == "<=" || two == ">=" || two == "->";
      if (!is_two && (c == '!' || c == '-')) {
        throw ScriptError(line, std::string("unexpected character `") + c + "`");
      }
      tokens.push_back({std::string(is_two ? two : two.substr(0, 1)), line, true});
      i += is_two ? 2 : 1;
    } else {
      throw ScriptError(line, std::string("unexpected character `") + c + "`");
    }
  }
  return tokens;
}

// Takes the tokens of one command from the left.
class Reader {
 public:
  Reader(const Token* begin, const Token* end) : at_(begin), end_(end), line_(begin->line) {}
  bool done() const { return at_ == end_; }
  bool symbol_next(const char* symbol, std::size_t ahead = 0) const {
    return at_ + ahead < end_ && at_[ahead].symbol && at_[ahead].text == symbol;
  }
  bool take(const char* symbol) {
    if (!symbol_next(symbol)) return false;
    ++at_;
    return true;
  }
  void expect(const char* symbol) {
    if (!take(symbol)) fail("expected `" + std::string(symbol) + "`");
  }
  std::string word(const char* what) {
    if (done() || at_->symbol) fail(std::string("expected ") + what);
    return (at_++)->text;
  }
  std::string comparison() {
    for (const char* c : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (take(c)) return c;
    }
    fail("expected a comparison (== != < <= > >=)");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ScriptError(
        line_, what + (done() ? ", found the end of the command" : ", found `" + at_->text + "`"));
  }

 private:
  const Token* at_;
  const Token* end_;
  int line_;
};

std::vector<Pair> arguments(Reader& in) {
  std::vector<Pair> all;
  in.expect("(");
  while (!in.take(")")) {
    if (!all.empty()) in.expect(",");
    std::string name = in.word("a parameter's name");
    in.expect(":");
    all.emplace_back(std::move(name), in.word("a number"));
  }
  return all;
}

// "0x0a" | "0x0a**" | "10" | "0x0a/24" | "3->7" (a range)
std::string key_value(Reader& in) {
  std::string value = in.word("a key's value");
  for (const char* joint : {"/", "->"}) {
    if (in.take(joint)) value += joint + in.word("a number");
  }
  return value;
}

void packet_data(Reader& in, Command& command) {
  while (!in.done()) {
    std::string part = in.word("packet data");
    if (part.ends_with('$')) {
      part.pop_back();
      command.exact_length = true;
      if (!in.done()) in.fail("expected the end of the command after `$`");
    }
    const bool digits = std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isxdigit(c) != 0 || c == '*';
    });
    if (!digits) in.fail("`" + part + "` is not packet data (hexadecimal digits, *, $)");
    command.data += part;
  }
  if (command.verb == Verb::kPacket) {
    if (command.data.empty() || command.data.size() % 2 != 0) {
      in.fail("a packet has whole bytes, at least one");
    }
    if (command.data.find('*') != std::string::npos || command.exact_length) {
      in.fail("a packet that is sent has no * or $");
    }
  }
}

std::string decimal(Reader& in, const char* what) {
  std::string word = in.word(what);
  if (word.empty() || word.size() > 5 || word.find_first_not_of("0123456789") != word.npos) {
    in.fail("`" + word + "` is not " + what);
  }
  return word;
}

Command command_of(Verb verb, const std::string& keyword, Reader& in, int line) {
  Command c;
  c.verb = verb;
  c.line = line;
  switch (verb) {
    case Verb::kAdd:
      c.name = in.word("a table");
      if (!in.symbol_next(":", 1) && !in.symbol_next("(", 1)) {
        c.priority = in.word("a priority or a key field");
      }
      while (in.symbol_next(":", 1)) {
        std::string field = in.word("a key field");
        in.expect(":");
        c.matches.emplace_back(std::move(field), key_value(in));
      }
      c.action = in.word("an action");
      c.arguments = arguments(in);
      if (in.take("=")) c.label = in.word("a label");
      break;
    case Verb::kSetDefault:
      c.name = in.word("a table");
      c.action = in.word("an action");
      c.arguments = arguments(in);
      break;
    case Verb::kRemoveAll:
      if (lower(in.word("`all`")) != "all") in.fail("only `remove all` exists");
      break;
    case Verb::kCheckCounter: {
      c.name = in.word("a counter");
      in.expect("(");
      c.index = in.word("an index or a label");
      in.expect(")");
      if (in.done()) break;
      const std::string unit = lower(in.word("`packets` or `bytes`"));
      if (unit != "packets" && unit != "bytes") in.fail("expected `packets` or `bytes`");
      std::string comparison = in.comparison();
      c.check = CounterCheck{unit == "bytes", std::move(comparison), in.word("a number")};
      break;
    }
    case Verb::kPacket:
    case Verb::kExpect:
      c.port = decimal(in, "a port");
      packet_data(in, c);
      break;
    case Verb::kNoPacket:
    case Verb::kWait: break;
    case Verb::kControl:
      c.name = keyword;
      while (!in.done()) {
        std::string operand = in.word("an operand");
        if (in.take(":")) operand += ":" + in.word("a burst size");
        c.operands.push_back(std::move(operand));
      }
      break;
  }
  if (!in.done()) in.fail("expected the end of the command");
  return c;
}

}  // namespace

std::vector<Command> parse_script(std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  const auto starts_command = [&](std::size_t i) {
    const bool first_of_line = i == 0 || tokens[i - 1].line != tokens[i].line;
    return first_of_line && !tokens[i].symbol && verb_of(lower(tokens[i].text)).has_value();
  };
  std::vector<Command> commands;
  for (std::size_t i = 0; i < tokens.size();) {
    const std::string keyword = lower(tokens[i].text);
    if (!starts_command(i)) {
      throw ScriptError(tokens[i].line, "unknown command `" + tokens[i].text + "`");
    }
    std::size_t end = i + 1;
    while (end < tokens.size() && !starts_command(end)) ++end;
    Reader in(tokens.data() + i, tokens.data() + end);
    (void)in.word("a command");
    commands.push_back(command_of(*verb_of(keyword), keyword, in, tokens[i].line));
    i = end;
  }
  return commands;
}

}  // namespace tiercast::stf
