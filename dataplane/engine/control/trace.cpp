#include "dataplane/engine/control/trace.h"

#include <cstdio>

namespace tiercast::engine {
namespace {

void append(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

struct Writer {
  std::string& out;
  void operator()(bool value) { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) { out += std::to_string(value); }
  void operator()(const std::string& value) { append(out, value); }
  void operator()(const std::vector<std::string>& list) {
    out += '[';
    for (const std::string& item : list) {
      if (out.back() != '[') out += ',';
      append(out, item);
    }
    out += ']';
  }
  void operator()(const TraceMap& map) {
    out += '{';
    for (const auto& [name, value] : map) {
      if (out.back() != '{') out += ',';
      append(out, name);
      out += ':';
      append(out, value);
    }
    out += '}';
  }
};

}  // namespace

std::string to_json(const TraceEvent& event) {
  std::string out = "{\"kind\":";
  append(out, event.kind);
  out += ",\"time_ns\":" + std::to_string(event.time_ns);
  out += ",\"packet\":" + std::to_string(event.packet);
  out += ",\"copy\":" + std::to_string(event.copy);
  for (const auto& [name, value] : event.fields) {
    out += ',';
    append(out, name);
    out += ':';
    std::visit(Writer{out}, value);
  }
  return out + "}";
}

}  // namespace tiercast::engine
