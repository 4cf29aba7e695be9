#include "dataplane/stf/runner.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "dataplane/engine/api/switch.h"
#include "dataplane/stf/control.h"
#include "dataplane/stf/names.h"

namespace tiercast::stf {

namespace {

// Far longer than a packet needs to cross the switch; p4c's runner, too, waits after commands.
constexpr std::int64_t kAfterCommandNs = 1'000'000'000;
constexpr std::int64_t kBetweenPacketsNs = 1'000'000;

struct Expected {
  int line;
  bool any;  // any packet
  std::string data;
  bool exact_length;
};

std::string hex(std::span<const std::byte> frame) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : frame) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

bool matches(const Expected& expected, const std::string& got) {
  if (expected.any) return true;
  if (got.size() < expected.data.size()) return false;
  if (expected.exact_length && got.size() != expected.data.size()) return false;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const int wanted = std::tolower(static_cast<unsigned char>(expected.data[i]));
    if (wanted != '*' && wanted != got[i]) return false;
  }
  return true;
}

std::string text_of(const Expected& e) {
  return e.any ? "any packet" : e.data + (e.exact_length ? "$" : "");
}

class Sink final : public engine::Output {
 public:
  explicit Sink(const std::set<std::uint32_t>& ports) : ports_(ports) {}
  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t) override {
    if (ports_.contains(port)) got[port].push_back(hex(frame));
  }
  void packet_in(std::span<const std::byte>) override {}  // the CPU port is not part of the script
  void assertion_failed(std::string_view what) override {
    if (failed_assertion.empty()) failed_assertion = what;
  }
  std::map<std::uint32_t, std::vector<std::string>> got;
  std::string failed_assertion;

 private:
  const std::set<std::uint32_t>& ports_;
};

std::uint32_t port_of(const Command& c) {
  const auto port = static_cast<std::uint32_t>(std::stoul(c.port));
  if (port >= engine::Switch::kMaxPorts - 1) {
    throw NameError("port " + c.port + ", valid: 0 to " +
                    std::to_string(engine::Switch::kMaxPorts - 2));
  }
  return port;
}

std::string at_line(int line, const std::string& what) {
  return "line " + std::to_string(line) + ": " + what;
}

// The highest port that the script does not use, because the engine always has a CPU port.
std::uint32_t free_port(const std::set<std::uint32_t>& used) {
  std::uint32_t port = engine::Switch::kMaxPorts - 2;
  while (used.contains(port)) --port;
  return port;
}

Verdict compare(const std::map<std::uint32_t, std::vector<Expected>>& expected,
                const std::map<std::uint32_t, std::vector<std::string>>& got) {
  std::set<std::uint32_t> ports;
  for (const auto& [port, list] : expected) ports.insert(port);
  for (const auto& [port, list] : got) ports.insert(port);
  for (const std::uint32_t port : ports) {
    const std::string place = "port " + std::to_string(port) + ": ";
    const auto e = expected.find(port);
    const auto g = got.find(port);
    const std::size_t wanted = e == expected.end() ? 0 : e->second.size();
    const std::size_t came = g == got.end() ? 0 : g->second.size();
    for (std::size_t i = 0; i < std::min(wanted, came); ++i) {
      if (!matches(e->second[i], g->second[i])) {
        return {false, at_line(e->second[i].line, place + "expected " + text_of(e->second[i]) +
                                                      " got " + g->second[i])};
      }
    }
    if (came < wanted) {
      return {false, at_line(e->second[came].line,
                             place + "expected " + text_of(e->second[came]) + " got nothing")};
    }
    if (came > wanted) {
      return {false, place + "expected nothing more after " + std::to_string(wanted) +
                         " packets, got " + g->second[wanted]};
    }
  }
  return {true, ""};
}

}  // namespace

Verdict run_script(std::shared_ptr<const engine::Program> program,
                   const std::vector<Command>& script,
                   std::shared_ptr<const engine::NativeProgram> native) {
  std::set<std::uint32_t> ports;
  int line = 0;
  try {
    for (const Command& c : script) {
      line = c.line;
      if (c.verb == Verb::kPacket || c.verb == Verb::kExpect) ports.insert(port_of(c));
    }
    engine::Switch::Options options;
    options.cpu_port = free_port(ports);
    Sink sink(ports);
    engine::Switch sw(std::move(program), options, sink);
    sw.run_native(std::move(native));
    // The program may send to ports that the script does not name.
    for (std::uint32_t port = 0; port < engine::Switch::kMaxPorts; ++port) {
      if (port == options.cpu_port || port == options.drop_port) continue;
      if (const engine::Status s = sw.set_port(port, {}); !s.ok()) throw NameError(s.message());
    }
    Control control(sw);
    std::map<std::uint32_t, std::vector<Expected>> expected;
    std::int64_t now_ns = 0;
    for (const Command& c : script) {
      line = c.line;
      switch (c.verb) {
        case Verb::kPacket: {
          std::vector<std::byte> frame;
          for (std::size_t i = 0; i < c.data.size(); i += 2) {
            frame.push_back(static_cast<std::byte>(std::stoul(c.data.substr(i, 2), nullptr, 16)));
          }
          sw.receive(port_of(c), frame, now_ns);
          now_ns += kBetweenPacketsNs;
          break;
        }
        case Verb::kExpect:
          expected[port_of(c)].push_back(
              {c.line, c.data.empty() && !c.exact_length, c.data, c.exact_length});
          break;
        case Verb::kNoPacket: break;  // any unexpected packet is an error anyway
        case Verb::kWait: now_ns += kAfterCommandNs; break;
        default:
          control.run(c);
          now_ns += kAfterCommandNs;
          break;
      }
      sw.advance(now_ns);
      if (!sink.failed_assertion.empty()) return {false, at_line(line, sink.failed_assertion)};
    }
    while (sw.next_event() != engine::Switch::kNever) {
      now_ns = std::max(now_ns, sw.next_event());
      sw.advance(now_ns);
    }
    return compare(expected, sink.got);
  } catch (const NameError& error) {
    return {false, at_line(line, error.what())};
  }
}

}  // namespace tiercast::stf
