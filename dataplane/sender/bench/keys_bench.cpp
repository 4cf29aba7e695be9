// What keys cost the sender: packets per second of CPU time that one thread builds, in virtual time
// and without a device, while it takes feedback, with seals and without, in turns. A line of JSON
// for each turn.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <vector>

#include "agent/seal.h"
#include "dataplane/sender/sessions/session_table.h"
#include "protocols/core/registry.h"
#include "protocols/schemes/rlm/messages.h"

namespace tiercast::sender {
namespace {

constexpr std::uint16_t kSessions = 125;  // of 8 layers each
constexpr unsigned kLayers = 8;
constexpr double kPacketsPerSecond = 1e6;  // of all layers, in virtual time
constexpr std::uint32_t kPacketSize = 1000;
constexpr unsigned kPackets = 4'000'000;      // in a turn
constexpr unsigned kPacketsPerMessage = 200;  // 50,000 messages/s where 10 M packets/s are built
constexpr unsigned kTurns = 5;
constexpr std::uint32_t kReceiver = 9;

using Message = std::vector<std::byte>;

// Of this thread, so that it matters less what else the machine does.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Nowhere final : Outlet {
  void control(std::span<const std::byte>) override {}
  void record(Time, std::uint16_t, std::string_view, std::span<const TraceField>) override {}
};

SessionRequest request(std::uint16_t session, bool keys) {
  SessionRequest out;
  out.scheme = "rlm";
  out.config.session = session;
  out.config.layers = kLayers;
  out.config.packet_size = kPacketSize;
  out.config.parameters = Parameters(find_scheme("rlm").parameters);
  const double rate = kPacketsPerSecond / (kSessions * kLayers) * kPacketSize * 8;
  for (const char* name : {"rlm.base_rate", "rlm.step_rate"}) out.config.parameters.set(name, rate);
  out.config.parameters.set("rlm.growth", 1);
  out.config.parameters.set("rlm.max_rate", 100e9);
  out.top_rank = kLayers - 1;
  if (keys) out.keys.emplace();
  return out;
}

// The announcements of one receiver to all sessions in turn, which each sender repeats to its
// group.
std::vector<Message> feedback(bool keys) {
  const agent::SessionKeys made;
  std::optional<agent::Sealer> sealer;
  if (keys) sealer.emplace(agent::key_of_receiver(made.feedback, kReceiver), made.nonce);
  std::vector<Message> out;
  for (unsigned i = 0; i < kPackets / kPacketsPerMessage; ++i) {
    wire::RlmAnnouncement announcement;
    announcement.session = static_cast<std::uint16_t>(i % kSessions);
    announcement.rank = 1;
    announcement.source = kReceiver;
    Message message(wire::RlmAnnouncement::kBytes);
    wire::write(announcement, message);
    if (sealer) {
      const auto sealed = sealer->seal(message);
      message.assign(sealed.begin(), sealed.end());
    }
    out.push_back(std::move(message));
  }
  return out;
}

void turn(bool keys) {
  Nowhere nowhere;
  SessionTable::Settings settings;
  settings.sessions = kSessions;
  settings.offload = {.ipv4 = true, .udp = true};
  SessionTable table(settings, nowhere);
  std::vector<std::unique_ptr<Session>> sessions;
  Time now;
  for (std::uint16_t i = 0; i < kSessions; ++i) {
    sessions.push_back(std::make_unique<Session>(request(i, keys), i, now));
    table.start(now, *sessions.back());
  }
  const std::vector<Message> messages = feedback(keys);
  std::vector<std::byte> frame(9216);
  const double began = cpu_seconds();
  for (unsigned built = 0; built < kPackets;) {
    if (const auto departure = table.pop(now)) {
      if (table.build(departure->layer, now, frame.data()) == 0) continue;
      table.sent({&*departure, 1});
      if (built % kPacketsPerMessage == 0) {
        const std::size_t i = built / kPacketsPerMessage;
        const auto slot = static_cast<std::uint32_t>(i % kSessions);
        table.receive(now, slot, static_cast<std::uint16_t>(slot), {messages[i], 68, false, 1});
      }
      ++built;
    } else if (!table.run_timer(now)) {
      now = std::max(table.next_deadline(), now + Duration::nanoseconds(1));
    }
  }
  const double took = cpu_seconds() - began;
  WorkerStatistics totals;
  table.read(totals);
  fmt::print(R"({{"keys": {}, "packets_per_s": {:.0f}, "feedback_delivered": {}}})"
             "\n",
             keys, kPackets / took, totals.feedback_delivered);
}

}  // namespace
}  // namespace tiercast::sender

int main() {
  for (unsigned i = 0; i < tiercast::sender::kTurns; ++i) {
    for (const bool keys : {false, true}) tiercast::sender::turn(keys);
  }
}
