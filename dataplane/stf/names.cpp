#include "dataplane/stf/names.h"

#include <algorithm>
#include <optional>

namespace tiercast::stf {

namespace {

// The digits of a number after its prefix, in base 2^bits or in decimal.
struct Digits {
  std::string text;
  unsigned bits;  // per digit: 4, 1; 0 for decimal
};

Digits digits_of(const std::string& text) {
  Digits d{text, 0};
  if (text.size() > 2 && text[0] == '0') {
    const char base = static_cast<char>(text[1] | 0x20);
    if (base == 'x') d.bits = 4;
    if (base == 'b') d.bits = 1;
    if (d.bits != 0) d.text = text.substr(2);
  }
  const std::string valid = d.bits == 4   ? "0123456789abcdefABCDEF*"
                            : d.bits == 1 ? "01*"
                                          : "0123456789";
  if (d.text.empty() || d.text.find_first_not_of(valid) != d.text.npos) {
    throw NameError("`" + text + "` is not a number (0x.., 0b.. or decimal)");
  }
  return d;
}

engine::Bytes bytes_of(const Digits& digits) {
  const unsigned base = digits.bits == 0 ? 10 : 1u << digits.bits;
  engine::Bytes little(1, '\0');  // least significant byte first
  for (const char c : digits.text) {
    unsigned carry =
        c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>((c | 0x20) - 'a' + 10);
    for (char& byte : little) {
      carry += static_cast<unsigned char>(byte) * base;
      byte = static_cast<char>(carry & 0xff);
      carry >>= 8;
    }
    if (carry != 0) little.push_back(static_cast<char>(carry));
  }
  return {little.rbegin(), little.rend()};
}

// The digits with `*` replaced by one character and every other digit by another.
engine::Bytes masked(Digits digits, char star, char other, bool keep_others) {
  for (char& c : digits.text) {
    if (c == '*') {
      c = star;
    } else if (!keep_others) {
      c = other;
    }
  }
  return bytes_of(digits);
}

engine::Bytes all_ones(unsigned width) {
  engine::Bytes mask((width + 7) / 8, '\xff');
  if (width % 8 != 0) mask[0] = static_cast<char>((1u << width % 8) - 1);
  return mask;
}

engine::FieldMatch ternary(const std::string& text, unsigned width) {
  const Digits d = digits_of(text);
  const engine::Bytes value = masked(d, '0', '0', true);
  if (d.bits == 0) return engine::FieldMatch::ternary(value, all_ones(width));
  // As in p4c's runner, the mask is as long as the digits given.
  return engine::FieldMatch::ternary(value, masked(d, '0', d.bits == 4 ? 'f' : '1', false));
}

engine::FieldMatch lpm(const std::string& text, unsigned width) {
  const std::size_t slash = text.find('/');
  if (slash != text.npos) {
    return engine::FieldMatch::lpm(
        number_bytes(text.substr(0, slash)),
        static_cast<unsigned>(small_number(text.substr(slash + 1), width)));
  }
  const Digits d = digits_of(text);
  if (d.bits == 0) return engine::FieldMatch::lpm(bytes_of(d), width);
  const auto stars = static_cast<unsigned>(std::count(d.text.begin(), d.text.end(), '*'));
  const unsigned bits = (static_cast<unsigned>(d.text.size()) - stars) * d.bits;
  return engine::FieldMatch::lpm(masked(d, '0', '0', true), std::min(bits, width));
}

engine::FieldMatch range(const std::string& text) {
  const std::size_t arrow = text.find("->");
  if (arrow == text.npos) return engine::FieldMatch::range(number_bytes(text), number_bytes(text));
  return engine::FieldMatch::range(number_bytes(text.substr(0, arrow)),
                                   number_bytes(text.substr(arrow + 2)));
}

engine::FieldMatch match_of(const engine::KeyField& key, const std::string& text) {
  if (text == "*" && key.kind != engine::MatchKind::kExact) return engine::FieldMatch::dont_care();
  try {
    switch (key.kind) {
      case engine::MatchKind::kExact: return engine::FieldMatch::exact(number_bytes(text));
      case engine::MatchKind::kLpm: return lpm(text, key.width);
      case engine::MatchKind::kTernary: return ternary(text, key.width);
      case engine::MatchKind::kRange: return range(text);
      case engine::MatchKind::kOptional: return engine::FieldMatch::exact(number_bytes(text));
    }
  } catch (const NameError& error) {
    throw NameError("key " + key.name + ": " + error.what());
  }
  return {};
}

// The key field that a script's name refers to. p4c escapes `a[1]` as `a$1`.
std::optional<std::size_t> key_index(const std::vector<engine::KeyField>& keys, std::string name) {
  const auto is = [&](const std::string& wanted) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].name == wanted) return i;
    }
    return std::nullopt;
  };
  if (const std::size_t dollar = name.find_last_of('$'); dollar != name.npos) {
    std::size_t end = dollar + 1;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    if (end > dollar + 1) {
      name = name.substr(0, dollar) + "[" + name.substr(dollar + 1, end - dollar - 1) + "]" +
             name.substr(end);
    }
  }
  for (const std::string& full : {name, name + "$", name + ".$valid$"}) {
    if (const auto found = is(full)) return found;
  }
  if (name.ends_with(".valid")) {
    if (const auto found = is(name.substr(0, name.size() - 5) + "$valid$")) return found;
  }
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string& key = keys[i].name;
    if (key.ends_with("." + name) || key.ends_with("." + name + "$") ||
        (name == "valid" && key.ends_with("$valid$"))) {
      last = i;
    }
  }
  return last;
}

template <class Names>
std::string list_of(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The name itself if it exists, otherwise the only one that ends with `suffix`.
std::string only_one(const std::vector<std::string>& names, const std::string& what,
                     const std::string& name, const std::string& suffix) {
  const std::string* found = nullptr;
  for (const std::string& candidate : names) {
    if (candidate == name) return candidate;
  }
  for (const std::string& candidate : names) {
    if (!candidate.ends_with(suffix)) continue;
    if (found != nullptr) {
      throw NameError(what + " `" + name + "` may be " + *found + " or " + candidate);
    }
    found = &candidate;
  }
  if (found == nullptr) {
    throw NameError("no " + what + " `" + name + "`; there are: " + list_of(names));
  }
  return *found;
}

}  // namespace

const engine::TableInfo& table_named(const engine::Program& program, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& table : program.tables()) names.push_back(table.name);
  const std::string found = only_one(names, "table", name, name);
  return *std::find_if(program.tables().begin(), program.tables().end(),
                       [&](const auto& table) { return table.name == found; });
}

std::string action_named(const engine::TableInfo& table, const std::string& name) {
  return only_one(table.actions, "action of table " + table.name, name, name);
}

std::string extern_named(const std::vector<std::string>& names, const char* what,
                         const std::string& name) {
  return only_one(names, what, name, "." + name);
}

std::vector<engine::FieldMatch> key_of(const engine::TableInfo& table,
                                       const std::vector<Pair>& matches) {
  std::vector<engine::FieldMatch> key;
  for (const engine::KeyField& field : table.keys) {
    key.push_back(field.kind == engine::MatchKind::kExact
                      ? engine::FieldMatch::exact(engine::Bytes(1, '\0'))
                      : engine::FieldMatch::dont_care());
  }
  for (const auto& [name, value] : matches) {
    const auto index = key_index(table.keys, name);
    if (!index) {
      std::vector<std::string> names;
      for (const auto& field : table.keys) names.push_back(field.name);
      throw NameError("table " + table.name + " has no key `" + name +
                      "`; there are: " + list_of(names));
    }
    key[*index] = match_of(table.keys[*index], value);
  }
  return key;
}

engine::ActionCall call_of(const engine::Program& program, const std::string& action,
                           const std::vector<Pair>& arguments) {
  const auto info = std::find_if(program.actions().begin(), program.actions().end(),
                                 [&](const auto& a) { return a.name == action; });
  engine::ActionCall call{action, {}};
  std::vector<std::string> names;
  for (const auto& parameter : info->parameters) {
    names.push_back(parameter.name);
    const auto given = std::find_if(arguments.rbegin(), arguments.rend(),
                                    [&](const Pair& a) { return a.first == parameter.name; });
    if (given == arguments.rend()) {
      throw NameError("action " + action + ": no value for parameter `" + parameter.name + "`");
    }
    call.arguments.push_back(number_bytes(given->second));
  }
  for (const auto& [name, value] : arguments) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw NameError("action " + action + " has no parameter `" + name +
                      "`; there are: " + list_of(names));
    }
  }
  return call;
}

engine::Bytes number_bytes(const std::string& text) {
  const Digits digits = digits_of(text);
  if (digits.text.find('*') != digits.text.npos) {
    throw NameError("`" + text + "`: * is valid in ternary and lpm keys only");
  }
  return bytes_of(digits);
}

std::uint64_t small_number(const std::string& text, std::uint64_t max) {
  std::uint64_t value = 0;
  for (const unsigned char byte : number_bytes(text)) {
    if (value > max >> 8) value = max + 1;
    if (value <= max) value = value << 8 | byte;
  }
  if (value > max) throw NameError("`" + text + "` is above " + std::to_string(max));
  return value;
}

}  // namespace tiercast::stf
