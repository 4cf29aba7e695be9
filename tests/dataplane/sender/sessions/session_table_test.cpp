#include "dataplane/sender/sessions/session_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/rlm/messages.h"
#include "protocols/schemes/sim/messages.h"
#include "protocols/wire/bytes.h"
#include "tests/dataplane/sender/samples.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::sender {
namespace {

using Bytes = std::vector<std::byte>;

// Sessions in virtual time.
struct Table final : Outlet {
  explicit Table(std::uint32_t capacity = 4) {
    settings.sessions = capacity;
    settings.addresses.own = kOwn;
    settings.records = true;
  }
  void control(std::span<const std::byte> frame) override {
    controls.emplace_back(frame.begin(), frame.end());
  }
  void record(Time, std::uint16_t, std::string_view kind, std::span<const TraceField>) override {
    ++kinds[std::string(kind)];
  }
  Session& start(const SessionRequest& request, Time at = Time::zero()) {
    if (!table) table.emplace(settings, *this);
    const auto slot = static_cast<std::uint32_t>(sessions.size());
    sessions.push_back(std::make_unique<Session>(request, slot, at));
    table->start(now, *sessions.back());
    return *sessions.back();
  }
  // A caller that is never late.
  template <typename Each>
  void run_until(Time end, Each each) {
    while (now < end) {
      while (table->run_timer(now)) {
      }
      while (const auto departure = table->pop(now)) {
        EXPECT_LE(departure->due, now);
        dues[departure->layer].push_back(departure->due.ns());
        const std::size_t bytes = table->build(departure->layer, now, buffer.data());
        if (bytes == 0) continue;
        table->sent({&*departure, 1});
        each(std::span<std::byte>(buffer).first(bytes));
      }
      now = std::min(end, std::max(table->next_deadline(), now + Duration::nanoseconds(1)));
    }
  }
  std::vector<LayerStatistics> layers() const {
    std::vector<LayerStatistics> out;
    for (const auto& session : sessions) table->read_layers(*session, out);
    return out;
  }

  SessionTable::Settings settings;
  std::optional<SessionTable> table;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Bytes> controls;
  std::map<std::string, int> kinds;
  std::map<SessionTable::Layer, std::vector<std::int64_t>> dues;  // ns, of every departure
  Bytes buffer = Bytes(10'000);
  Time now;
};

TEST(SenderSessions, EveryPacketIsWhole) {
  for (const std::uint32_t size : {46u, 50u, 60u, 101u, 1000u, 9000u}) {
    for (const bool prefilled : {false, true}) {
      Table sessions;
      sessions.settings.prefilled = prefilled;
      std::copy(pattern().begin(), pattern().end(), sessions.buffer.begin() + 42);
      sessions.start(rlm(7, 1000, size, 3));
      SessionRequest sim;
      sim.scheme = "sim";
      sim.config.session = 8;
      sim.config.layers = 2;
      sim.config.packet_size = size;
      sim.config.parameters = Parameters(find_scheme("sim").parameters);
      sim.top_rank = 1;
      if (size >= 60) sessions.start(sim);
      std::map<std::pair<unsigned, unsigned>, std::uint32_t> next;
      unsigned packets = 0;
      sessions.run_until(Time::nanoseconds(50'000'000), [&](std::span<std::byte> frame) {
        wire::UdpPacket packet;
        ASSERT_EQ(wire::parse_udp_frame(frame, packet), wire::FrameError::kOk);
        ASSERT_EQ(packet.ip_length, size);
        wire::RlmData rlm_data;
        wire::SimData sim_data;
        std::size_t header = 0;
        std::uint32_t seq = 0;
        std::pair<unsigned, unsigned> layer;
        if (wire::parse(packet.payload, rlm_data) == wire::Error::kOk) {
          header = wire::RlmData::kBytes;
          seq = rlm_data.seq;
          layer = {rlm_data.session, rlm_data.rank};
        } else {
          ASSERT_EQ(wire::parse(packet.payload, sim_data), wire::Error::kOk);
          header = wire::SimData::kBytes;
          seq = sim_data.seq;
          layer = {sim_data.session, sim_data.rank};
        }
        EXPECT_EQ(packet.destination, wire::group_address(static_cast<std::uint16_t>(layer.first),
                                                          static_cast<std::uint8_t>(layer.second)));
        for (std::size_t i = header; i < packet.payload.size(); ++i) {
          ASSERT_EQ(packet.payload[i], static_cast<std::byte>(i)) << i;
        }
        const auto [expected, first] = next.try_emplace(layer, seq);
        EXPECT_EQ(seq, expected->second);
        ++expected->second;
        ++packets;
      });
      EXPECT_GE(packets, 150u) << size;
    }
  }
}

TEST(SenderSessions, TheyStartChangeAndStopWhileOthersRun) {
  Table sessions;
  sessions.start(rlm(1, 1000));
  Session& second = sessions.start(rlm(2, 1000), Time::nanoseconds(10'000'000));
  std::map<std::uint16_t, int> sent;
  const auto count = [&sent](std::span<std::byte> frame) {
    wire::UdpPacket packet;
    ASSERT_EQ(wire::parse_udp_frame(frame, packet), wire::FrameError::kOk);
    wire::CommonHeader header;
    ASSERT_EQ(wire::parse_common(packet.payload, header), wire::Error::kOk);
    ++sent[header.session];
  };
  const auto run = [&](double until_ms) {
    sent.clear();
    sessions.run_until(Time::nanoseconds(static_cast<std::int64_t>(until_ms * 1e6)), count);
  };
  run(10);
  EXPECT_EQ(sent[1], 80);
  EXPECT_EQ(sent[2], 0);
  run(20);
  EXPECT_EQ(sent[1], 80);
  EXPECT_EQ(sent[2], 80);
  sessions.table->set_membership(sessions.now, second, 1);
  run(30);
  EXPECT_EQ(sent[1], 80);
  EXPECT_EQ(sent[2], 20);
  sessions.table->stop(sessions.now, second);
  run(40);
  EXPECT_EQ(sent[1], 80);
  EXPECT_EQ(sent[2], 0);
  // Its counts remain until its slot is used again.
  const auto layers = sessions.layers();
  ASSERT_EQ(layers.size(), 16u);
  EXPECT_EQ(layers[8].sent, 20u);
  EXPECT_EQ(layers[15].sent, 10u);
  // It comes back with four times the rate.
  sessions.start(rlm(2, 4000), sessions.now);
  run(50);
  EXPECT_EQ(sent[1], 80);
  EXPECT_EQ(sent[2], 320);
  // None of this moved a departure of the first session, not even by a nanosecond.
  for (SessionTable::Layer layer = 0; layer < 8; ++layer) {
    const std::vector<std::int64_t>& due = sessions.dues.at(layer);
    ASSERT_EQ(due.size(), 50u);
    for (std::size_t i = 1; i < due.size(); ++i) ASSERT_EQ(due[i] - due[i - 1], 1'000'000) << i;
  }
}

TEST(SenderSessions, CountsAreExactWhateverBecomesOfAPacket) {
  Table sessions;
  sessions.start(rlm(1, 10'000));
  Rng rng(1);
  std::uint64_t departures = 0;
  for (sessions.now = Time::zero(); sessions.now < Time::nanoseconds(100'000'000);
       sessions.now = sessions.now + Duration::microseconds(3)) {
    while (const auto departure = sessions.table->pop(sessions.now)) {
      ++departures;
      const double fate = rng.uniform();
      if (fate < 0.1) {
        sessions.table->dropped(departure->layer, false);
        continue;
      }
      sessions.table->build(departure->layer, sessions.now, sessions.buffer.data());
      if (fate < 0.3) {
        sessions.table->dropped(departure->layer, true);
      } else {
        sessions.table->sent({&*departure, 1});
      }
    }
  }
  std::uint64_t generated = 0;
  for (const LayerStatistics& layer : sessions.layers()) {
    EXPECT_EQ(layer.generated, layer.sent + layer.dropped);
    EXPECT_GT(layer.dropped, 100u);
    generated += layer.generated;
  }
  EXPECT_EQ(generated, departures);
  WorkerStatistics totals;
  sessions.table->read(totals);
  EXPECT_EQ(totals.generated, departures);
  EXPECT_EQ(totals.generated, totals.sent + totals.dropped);
  EXPECT_EQ(totals.sent_bytes, totals.sent * 1000);
}

TEST(SenderSessions, FeedbackReachesTheCoreOfItsSessionAndForgedIsCounted) {
  Table sessions;
  SessionRequest request;
  request.scheme = "sim";
  request.config.session = 5;
  request.config.layers = 3;
  request.config.parameters = Parameters(find_scheme("sim").parameters);
  request.top_rank = 2;
  const Session& session = sessions.start(request);
  std::uint32_t fb_req = 0;
  const auto inspect = [&fb_req](std::span<std::byte> frame) {
    wire::UdpPacket packet;
    wire::SimData data;
    ASSERT_EQ(wire::parse_udp_frame(frame, packet), wire::FrameError::kOk);
    ASSERT_EQ(wire::parse(packet.payload, data), wire::Error::kOk);
    fb_req = data.fb_req;
  };
  sessions.run_until(Time::nanoseconds(1'000'000), inspect);
  wire::SimFeedback feedback;
  feedback.session = 5;
  feedback.source = 9;
  feedback.fb_req = fb_req;
  feedback.record_count = 1;
  feedback.records[0] = {.rank = 2,
                         .reports = 1,
                         .congested = 0,
                         .min_cum_rate = 1000,
                         .max_cum_rate = 1000,
                         .receivers = 1};
  std::array<std::byte, wire::SimFeedback::kMaxBytes> message;
  const std::size_t size = wire::write(feedback, message);
  ASSERT_GT(size, 0u);
  const auto deliver = [&](std::uint32_t slot, std::uint16_t number, std::size_t bytes) {
    sessions.table->receive(sessions.now, slot, number,
                            {std::span(message).first(bytes), 100, false, 1});
  };
  deliver(session.slot(), 5, size);
  for (std::size_t cut = 0; cut < size; ++cut) deliver(session.slot(), 5, cut);
  deliver(session.slot(), 6, size);  // of another session
  deliver(3, 5, size);               // there is no such session
  deliver(99, 5, size);
  WorkerStatistics totals;
  sessions.table->read(totals);
  EXPECT_EQ(totals.feedback_delivered, 1 + size);
  EXPECT_EQ(totals.feedback_refused, size);
  EXPECT_EQ(totals.feedback_late, 3u);
  sessions.run_until(Time::nanoseconds(3'000'000'000), inspect);
  EXPECT_GT(sessions.kinds["sim.round"], 0);
}

// Each with the bytes of RLM's announcement. They count only from the address of the member named.
TEST(SenderSessions, FeedbackOfOthersThanItsMembersIsCountedAndReachesNoCore) {
  Table sessions;
  SessionRequest request = rlm(7, 1000, 500, 3);
  request.config.members =
      std::make_shared<const Members>(std::vector<Member>{{9, 0x0a000009}, {8, 0x0a000008}});
  const Session& session = sessions.start(request);
  const auto receive = [&](std::uint32_t id, std::uint32_t from) {
    wire::RlmAnnouncement announcement;
    announcement.session = 7;
    announcement.rank = 1;
    announcement.source = id;
    std::array<std::byte, wire::RlmAnnouncement::kBytes> message;
    ASSERT_EQ(wire::write(announcement, message), message.size());
    sessions.table->receive(sessions.now, session.slot(), 7, {message, 44, false, from});
  };
  receive(9, 0x0a000009);
  receive(9, 0x0a000008);
  receive(9, 0x0a000007);
  receive(5, 0x0a000009);
  WorkerStatistics totals;
  sessions.table->read(totals);
  EXPECT_EQ(totals.feedback_delivered, 1u);
  EXPECT_EQ(totals.feedback_refused, 0u);
  EXPECT_EQ(totals.feedback_refusals.impersonated, 2u);
  EXPECT_EQ(totals.feedback_refusals.non_member, 1u);
}

// MDP-CC finishes by its timer, when nobody has asked for anything for a while. Its last receiver
// may have left before; but while there has been none, a sender that is alone waits for one.
TEST(SenderSessions, ATransferIsFinishedOnceItsReceiversHaveGone) {
  const TemporaryFolder folder;
  const std::string file = folder.file("object");
  std::ofstream(file, std::ios::binary) << std::string(20'000, 'x');
  for (const bool somebody_was_there : {false, true}) {
    Table sessions;
    SessionRequest request;
    request.scheme = "mdpcc";
    request.config.session = 7;
    request.config.layers = 1;
    request.config.packet_size = 1000;
    request.config.parameters = Parameters(find_scheme("mdpcc").parameters);
    request.top_rank = 0;
    request.input = std::make_shared<agent::FileContents>(file);
    Session& session = sessions.start(request);
    const auto run_until = [&](std::int64_t second) {
      sessions.run_until(Time::nanoseconds(second * 1'000'000'000), [](std::span<std::byte>) {});
    };
    run_until(1);
    if (somebody_was_there) {
      wire::UdpPacket packet;
      wire::MdpccProbe probe;
      ASSERT_FALSE(sessions.controls.empty());
      ASSERT_EQ(wire::parse_udp_frame(sessions.controls.back(), packet), wire::FrameError::kOk);
      ASSERT_EQ(wire::parse(packet.payload, probe), wire::Error::kOk);
      wire::MdpccReport leave;
      leave.session = 7;
      leave.flags = wire::kMdpccLeave;
      leave.probe_seq = probe.probe_seq;
      leave.source = 9;
      leave.response_us = probe.tx_time_us;
      std::array<std::byte, wire::MdpccReport::kBytes> message;
      ASSERT_EQ(wire::write(leave, message), message.size());
      sessions.table->receive(sessions.now, session.slot(), 7, {message, 44, false, 0x0a000009});
    }
    EXPECT_FALSE(session.finished());
    run_until(300);
    EXPECT_EQ(session.finished(), somebody_was_there);
  }
}

// A stall of 100 us in which all layers of a session are due.
TEST(SenderSessions, EachLayerHasItsOwnGaps) {
  Table sessions;
  sessions.start(rlm(7, 10'000, 1000, 8));
  SessionTable& table = *sessions.table;
  const auto at = [](std::int64_t us) { return Time::nanoseconds(us * 1000); };
  for (SessionTable::Layer layer = 0; layer < 8; ++layer) {
    EXPECT_FALSE(table.gap_error(layer, at(0)));
    EXPECT_EQ(table.gap_error(layer, at(100)), Duration::zero());
  }
  for (SessionTable::Layer layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(table.gap_error(layer, at(300)), Duration::microseconds(100)) << layer;
    EXPECT_EQ(table.gap_error(layer, at(350)), Duration::microseconds(-50)) << layer;
  }
  // A layer that nobody had, and one whose rate goes on, at a membership that changes.
  table.set_membership(at(350), *sessions.sessions.front(), 3);
  table.set_membership(at(350), *sessions.sessions.front(), 7);
  EXPECT_FALSE(table.gap_error(7, at(450)));
  EXPECT_EQ(table.gap_error(7, at(550)), Duration::zero());
  EXPECT_EQ(table.gap_error(0, at(450)), Duration::zero());
}

TEST(SenderSessions, AWindowHasNoGapsToKeep) {
  Table sessions;
  SessionRequest request = rlm(7, 10'000, 1000, 1);
  request.scheme = "rla";
  request.config.parameters = Parameters(find_scheme("rla").parameters);
  sessions.start(request);
  for (int us = 0; us < 3; ++us) {
    EXPECT_FALSE(sessions.table->gap_error(0, Time::nanoseconds(us * 1000)));
  }
}

// Some cores stop their layers themselves.
TEST(SenderSessions, LayersThatEndKeepTheirRates) {
  for (const char* const scheme : {"rlm", "tfmcc"}) {
    Table sessions;
    SessionRequest request = rlm(7, 100, 1000, 1);
    if (request.scheme != scheme) {
      request.scheme = scheme;
      request.config.parameters = Parameters(find_scheme(scheme).parameters);
    }
    Session& session = sessions.start(request);
    sessions.run_until(Time::nanoseconds(10'000'000), [](std::span<std::byte>) {});
    const Rate rate = sessions.layers().front().rate;
    EXPECT_GT(rate.bytes_per_second(), 0) << scheme;
    sessions.table->stop(sessions.now, session);
    EXPECT_EQ(sessions.layers().front().rate, rate) << scheme;
    EXPECT_FALSE(sessions.table->pop(sessions.now + Duration::seconds(10))) << scheme;
  }
}

// With keys, feedback counts once, and only with the seal of the receiver that it names. What goes
// to the group is sealed as well.
TEST(SenderSessions, SealsAreCheckedBeforeACoreHearsAMessage) {
  Table sessions;
  SessionRequest request = rlm(7, 1000, 500, 3);
  request.keys.emplace();
  request.keys->nonce.fill(std::byte{1});
  request.keys->group.fill(std::byte{2});
  request.keys->feedback.fill(std::byte{3});
  const Session& session = sessions.start(request);
  sessions.run_until(Time::nanoseconds(1'000'000), [](std::span<std::byte>) {});
  wire::RlmAnnouncement announcement;
  announcement.session = 7;
  announcement.rank = 1;
  announcement.source = 9;
  std::array<std::byte, wire::RlmAnnouncement::kBytes> message;
  ASSERT_EQ(wire::write(announcement, message), message.size());
  const auto receive = [&](std::span<const std::byte> bytes) {
    sessions.table->receive(sessions.now, session.slot(), 7, {bytes, 68, false, 1});
  };
  agent::Sealer own(agent::key_of_receiver(request.keys->feedback, 9), request.keys->nonce);
  agent::Sealer other(agent::key_of_receiver(request.keys->feedback, 8), request.keys->nonce);
  receive(message);
  receive(other.seal(message));
  const std::span<const std::byte> sealed = own.seal(message);
  receive(sealed);
  receive(sealed);
  receive(sealed);
  WorkerStatistics totals;
  sessions.table->read(totals);
  EXPECT_EQ(totals.feedback_delivered, 1u);
  EXPECT_EQ(totals.feedback_refused, 0u);
  EXPECT_EQ(totals.seal_refusals.forged, 2u);
  EXPECT_EQ(totals.seal_refusals.replayed, 2u);
  ASSERT_EQ(sessions.controls.size(), 1u);
  wire::UdpPacket packet;
  ASSERT_EQ(wire::parse_udp_frame(sessions.controls[0], packet), wire::FrameError::kOk);
  std::span<const std::byte> repeated = packet.payload;
  agent::Opener opener(request.keys->group, request.keys->nonce);
  EXPECT_EQ(opener.open(repeated), agent::Seal::kIntact);
  wire::RlmAnnouncement read;
  EXPECT_EQ(wire::parse(repeated, wire::Type::kControl, read), wire::Error::kOk);
  EXPECT_EQ(read.source, 9u);
}

// What RLM's sender repeats to the group: the same bytes as from the plain writer, and tagged.
TEST(SenderSessions, ControlMessagesAreWholeFrames) {
  Bytes plain;
  for (const bool tagged : {false, true}) {
    Table sessions;
    if (tagged) sessions.settings.addresses.vlan = Vlan{100, 5};
    const Session& session = sessions.start(rlm(7, 1000, 500, 3));
    sessions.run_until(Time::nanoseconds(1'000'000), [](std::span<std::byte>) {});
    wire::RlmAnnouncement announcement;
    announcement.session = 7;
    announcement.rank = 1;
    announcement.source = 9;
    std::array<std::byte, wire::RlmAnnouncement::kBytes> message;
    ASSERT_GT(wire::write(announcement, message), 0u);
    sessions.table->receive(sessions.now, session.slot(), 7, {message, 44, false, 9});
    ASSERT_EQ(sessions.controls.size(), 1u);
    Bytes frame = sessions.controls[0];
    if (tagged) {
      EXPECT_EQ(wire::get16(frame, 12), 0x8100);
      EXPECT_EQ(wire::get16(frame, 14), 5u << 13 | 100u);
      frame.erase(frame.begin() + 12, frame.begin() + 16);
      // Compare everything except the number and the checksum that depends on it.
      for (const std::size_t at : {18u, 19u, 24u, 25u}) frame[at] = plain[at];
      EXPECT_EQ(frame, plain);
    }
    plain = frame;
    wire::UdpPacket packet;
    ASSERT_EQ(wire::parse_udp_frame(frame, packet), wire::FrameError::kOk);
    EXPECT_EQ(packet.destination, wire::group_address(7, 0));
    EXPECT_EQ(packet.source, kOwn.ip);
    ASSERT_EQ(wire::parse(packet.payload, wire::Type::kControl, announcement), wire::Error::kOk);
    EXPECT_EQ(announcement.source, 9u);
  }
}

TEST(SenderSessions, ThousandsOfLayersKeepTheirRates) {
  Table sessions(1250);
  constexpr double kPerSecond = 200;
  for (std::uint16_t i = 0; i < 1250; ++i) {
    sessions.start(rlm(i, kPerSecond, 50), Time::nanoseconds(i * 4000));
  }
  sessions.run_until(Time::nanoseconds(105'000'000), [](std::span<std::byte>) {});
  for (const LayerStatistics& layer : sessions.layers()) {
    ASSERT_NEAR(static_cast<double>(layer.sent), 0.1 * kPerSecond, 1.01);
  }
}

}  // namespace
}  // namespace tiercast::sender
