// The parts of the sender at line rate that need no device: headers and checksums, payload, rings,
// sessions in virtual time, the dry run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "dataplane/sender/frames/frame_template.h"
#include "dataplane/sender/frames/neighbour.h"
#include "dataplane/sender/frames/payload.h"
#include "dataplane/sender/sender.h"
#include "dataplane/sender/sessions/schedule.h"
#include "dataplane/sender/sessions/session_table.h"
#include "dataplane/sender/worker/ring.h"
#include "dataplane/sender/worker/tsc_clock.h"
#include "protocols/base/rng.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/rlm.h"
#include "protocols/wire/sim.h"

namespace tiercast::sender {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const OwnAddress kOwn{agent::parse_mac("02:00:00:00:00:02", ""), 0x0a000002};

wire::UdpFlow flow() {
  wire::UdpFlow flow;
  flow.source_mac = kOwn.mac;
  flow.source = kOwn.ip;
  flow.destination = wire::group_address(7, 3);
  flow.destination_mac = wire::multicast_mac(flow.destination);
  flow.source_port = flow.destination_port = wire::kDataPort;
  flow.ecn = wire::Ecn::kEct0;
  return flow;
}

Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// Every size from the smallest to 9000 bytes, compared byte for byte with the plain writer.
TEST(SenderFrameTemplate, WritesWhatThePlainWriterWrites) {
  const Bytes payload = random_bytes(9000, 1);
  for (std::uint32_t ip_bytes = 28; ip_bytes <= 9000; ip_bytes += ip_bytes < 200 ? 1 : 37) {
    const FrameTemplate headers(flow(), {}, ip_bytes, {});
    Bytes expected(14 + ip_bytes), actual(14 + ip_bytes);
    ASSERT_EQ(headers.frame_bytes(), expected.size());
    ASSERT_EQ(headers.header_bytes(), 42u);
    for (Bytes* frame : {&expected, &actual}) {
      std::copy_n(payload.begin(), ip_bytes - 28, frame->begin() + 42);
    }
    const auto id = static_cast<std::uint16_t>(ip_bytes * 7919);
    wire::write_udp_headers(flow(), id, expected);
    headers.write(actual.data(), id, sum_words(actual.data() + 42, ip_bytes - 28));
    ASSERT_EQ(actual, expected) << ip_bytes;
  }
}

TEST(SenderFrameTemplate, EveryNumberHasItsChecksum) {
  const FrameTemplate headers(flow(), {}, 60, {});
  Bytes frame(74);
  for (unsigned id = 0; id <= 0xffff; ++id) {
    headers.write(frame.data(), static_cast<std::uint16_t>(id), 0);
    ASSERT_EQ(wire::internet_checksum(std::span(frame).subspan(14, 20)), 0) << id;
  }
}

// A UDP checksum of zero is sent as 0xffff, because zero would mean that there is none.
TEST(SenderFrameTemplate, AChecksumOfZeroIsSentAsAllOnes) {
  const FrameTemplate headers(flow(), {}, 30, {});
  Bytes frame(46);  // headers need packets of at least 28 bytes; 2 of these are payload
  bool seen = false;
  for (unsigned value = 0; value <= 0xffff; ++value) {
    wire::put16(frame, 42, static_cast<std::uint16_t>(value));
    headers.write(frame.data(), 0, sum_words(frame.data() + 42, 2));
    seen |= wire::get16(frame, 40) == 0xffff;
    ASSERT_NE(wire::get16(frame, 40), 0);
  }
  EXPECT_TRUE(seen);
}

TEST(SenderFrameTemplate, ATagStandsBehindTheAddresses) {
  const FrameTemplate headers(flow(), Vlan{100, 5}, 60, {});
  Bytes plain(74), tagged(78);
  ASSERT_EQ(headers.frame_bytes(), tagged.size());
  wire::write_udp_headers(flow(), 9, plain);
  headers.write(tagged.data(), 9, 0);
  EXPECT_EQ(wire::get16(tagged, 12), 0x8100);
  EXPECT_EQ(wire::get16(tagged, 14), 5u << 13 | 100u);
  tagged.erase(tagged.begin() + 12, tagged.begin() + 16);
  EXPECT_EQ(tagged, plain);
}

// The device adds the rest: the field holds the sum of the pseudo header, not inverted.
TEST(SenderFrameTemplate, WithOffloadTheSumOfThePseudoHeaderIsLeft) {
  const FrameTemplate headers(flow(), {}, 60, {.ipv4 = true, .udp = true});
  Bytes frame(74);
  headers.write(frame.data(), 1, 12345);
  EXPECT_EQ(wire::get16(frame, 24), 0);
  Bytes pseudo(frame.begin() + 26, frame.begin() + 34);
  for (const unsigned byte : {0u, 17u, 0u, 40u}) pseudo.push_back(std::byte(byte));
  const auto sum = static_cast<std::uint16_t>(~wire::internet_checksum(pseudo));
  EXPECT_EQ(wire::get16(frame, 40), sum);
}

TEST(SenderRing, EveryValueOnceAndInOrderBetweenTwoThreads) {
  constexpr unsigned kValues = 200'000;
  Ring<unsigned> ring(100);
  std::thread writer([&ring] {
    for (unsigned i = 0; i < kValues;) {
      if (ring.push(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  unsigned value = 0;
  for (unsigned expected = 0; expected < kValues;) {
    if (!ring.pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value, expected++);
  }
  writer.join();
  EXPECT_TRUE(ring.empty());
}

TEST(SenderRing, AFullRingRefuses) {
  Ring<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int value;
  EXPECT_TRUE(ring.pop(value));
  EXPECT_TRUE(ring.push(4));
}

TEST(SenderRing, ManyAtOnceAreThoseThatFit) {
  Ring<int> ring(4);
  const std::array<int, 3> three{1, 2, 3};
  EXPECT_EQ(ring.push(std::span(three)), 3u);
  EXPECT_EQ(ring.push(std::span(three)), 1u);
  std::array<int, 8> out{};
  EXPECT_EQ(ring.pop(std::span(out).first(2)), 2u);
  EXPECT_EQ(ring.push(std::span(three)), 2u);
  EXPECT_EQ(ring.pop(std::span(out)), 4u);
  EXPECT_THAT(std::span(out).first(4), testing::ElementsAre(3, 1, 1, 2));
  EXPECT_EQ(ring.pop(std::span(out)), 0u);
}

TEST(SenderPayload, AFileIsSentOverAndOver) {
  const std::string path = testing::TempDir() + "/payload";
  std::ofstream(path) << "abcde";
  const auto source = open_payload(path);
  std::string text(12, ' ');
  ASSERT_TRUE(source->fill(std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "abcdeabcdeab");
  ASSERT_TRUE(source->fill(std::as_writable_bytes(std::span(text).first(3))));
  EXPECT_EQ(text.substr(0, 3), "cde");
  EXPECT_THROW(open_payload("/nonexistent"), ConfigError);
  std::remove(path.c_str());
}

TEST(SenderPayload, AStreamThatRunsDryIsFilledWithZeros) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "hello", 5), 5);
  close(ends[1]);
  const auto source = read_payload(ends[0]);
  std::string text;
  while (text.size() < 5) {  // until the reading thread has had its turn
    std::string part(1, ' ');
    if (source->fill(std::as_writable_bytes(std::span(part)))) text += part;
  }
  EXPECT_EQ(text, "hello");
  std::string dry(3, 'x');
  EXPECT_FALSE(source->fill(std::as_writable_bytes(std::span(dry))));
  EXPECT_EQ(dry, std::string(3, '\0'));
  close(ends[0]);
}

TEST(SenderNeighbour, AsksUntilItIsAnswered) {
  const agent::MacAddress broadcast = agent::parse_mac("ff:ff:ff:ff:ff:ff", "");
  Neighbour neighbour(kOwn, 0x0a000001, broadcast);
  std::array<std::byte, Neighbour::kFrameBytes> request;
  const Time start = Time::nanoseconds(5'000'000'000);
  ASSERT_TRUE(neighbour.ask(start, request));
  EXPECT_FALSE(neighbour.ask(start + Duration::milliseconds(999), request));
  ASSERT_TRUE(neighbour.ask(start + Duration::milliseconds(1000), request));
  EXPECT_EQ(neighbour.mac(), broadcast);
  // The neighbour answers as any host does.
  const OwnAddress gateway{agent::parse_mac("02:00:00:00:00:01", ""), 0x0a000001};
  const auto reply = answer(gateway, request);
  ASSERT_FALSE(reply.empty());
  EXPECT_TRUE(neighbour.learn(start, reply));
  EXPECT_EQ(neighbour.mac(), gateway.mac);
  EXPECT_FALSE(neighbour.ask(start + Duration::milliseconds(30'000), request));
  EXPECT_TRUE(neighbour.ask(start + Duration::milliseconds(61'000), request));
  for (std::size_t size = 0; size < reply.size(); ++size) {
    EXPECT_FALSE(neighbour.learn(start, reply.first(size)));
  }
}

// The rate is measured instead of taken from the processor or DPDK, and no sync() sets the clock
// back.
TEST(SenderTscClock, KeepsToTheKernelsClockAndNeverGoesBack) {
  TscClock clock;
  Time last = clock.now();
  for (int round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Time before = agent::monotonic_now();
    const Time now = clock.now();
    const Time after = agent::monotonic_now();
    EXPECT_GE(now, before - Duration::microseconds(40));
    EXPECT_LE(now, after + Duration::microseconds(40));
    EXPECT_GE(now, last);
    clock.sync();
    last = clock.now();
    EXPECT_GE(last, now);
  }
}

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
        table->sent(departure->layer);
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

SessionRequest rlm(std::uint16_t session, double packets_per_second, std::uint32_t size = 1000,
                   unsigned layers = 8) {
  SessionRequest request;
  request.scheme = "rlm";
  request.config.session = session;
  request.config.layers = layers;
  request.config.packet_size = size;
  request.config.parameters = Parameters(find_scheme("rlm").parameters);
  const double rate = packets_per_second * size * 8;
  for (const char* name : {"rlm.base_rate", "rlm.step_rate"}) {
    request.config.parameters.set(name, rate);
  }
  request.config.parameters.set("rlm.growth", 1);
  request.config.parameters.set("rlm.max_rate", 100e9);
  request.top_rank = static_cast<int>(layers) - 1;
  return request;
}

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
        sessions.table->sent(departure->layer);
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

TEST(SenderSchedule, WritesEveryPacketAndTheHistogram) {
  const std::string prefix = testing::TempDir() + "/plan";
  SessionTable::Settings settings;
  settings.addresses.own = kOwn;
  const ScheduleSummary summary =
      write_schedule({rlm(1, 1000, 200), rlm(2, 500, 300)}, settings, Duration::milliseconds(1),
                     Duration::milliseconds(100), prefix);
  EXPECT_NEAR(static_cast<double>(summary.packets), 8 * (100 + 50), 8);
  EXPECT_EQ(summary.gaps.count(), summary.packets - 16);
  std::ifstream pcap(prefix + ".pcap", std::ios::binary | std::ios::ate);
  EXPECT_EQ(static_cast<std::uint64_t>(pcap.tellg()),
            24 + summary.packets * (16 + 14) + summary.bytes);
  std::ifstream json(prefix + ".json");
  const std::string text((std::istreambuf_iterator<char>(json)), {});
  EXPECT_THAT(text, HasSubstr("\"packets\":" + std::to_string(summary.packets)));
  EXPECT_THROW(write_schedule({rlm(1, 1000)}, settings, Duration::zero(), Duration::milliseconds(1),
                              "/nonexistent/plan"),
               ConfigError);
  for (const char* end : {".pcap", ".json"}) std::remove((prefix + end).c_str());
}

std::string error_of(const v1::SessionSpec& spec) {
  try {
    requests_of(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SenderSessionList, SpecsAreCompletedAndChecked) {
  v1::SessionSpec spec;
  spec.set_session(10);
  spec.set_count(3);
  (*spec.mutable_parameters())["sim.delta"] = "0.5";
  const auto requests = requests_of(spec);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[2].scheme, "sim");
  EXPECT_EQ(requests[2].config.session, 12);
  EXPECT_EQ(requests[2].config.seed, 3u);
  EXPECT_EQ(requests[2].config.layers, 1u);  // an experiment's default, too
  EXPECT_EQ(requests[2].config.packet_size, 1000u);
  EXPECT_EQ(requests[2].top_rank, 0);
  EXPECT_EQ(requests[2].config.parameters.get("sim.delta"), 0.5);
  spec.set_packet_size(9001);
  EXPECT_THAT(error_of(spec), HasSubstr("packet_size = 9001"));
  spec.set_packet_size(0);
  spec.set_layers(8);
  EXPECT_EQ(requests_of(spec)[0].top_rank, 7);
  spec.set_layers(9);
  EXPECT_THAT(error_of(spec), HasSubstr("layers = 9 is out of range: valid 1 to 8"));
  spec.set_layers(0);
  spec.set_scheme("tfmcc");
  spec.clear_parameters();
  EXPECT_EQ(requests_of(spec)[0].config.layers, 1u);
  spec.set_session(32767);
  EXPECT_THAT(error_of(spec), HasSubstr("count = 3"));
  spec.set_scheme("udp");
  spec.set_session(0);
  EXPECT_THAT(error_of(spec), HasSubstr("unknown scheme 'udp'"));
}

TEST(SenderSessionList, FilesAreReadAndFaultsNamed) {
  const std::string path = testing::TempDir() + "/sessions.json";
  const auto error = [&path](const char* text) -> std::string {
    std::ofstream(path) << text;
    try {
      read_sessions(path);
    } catch (const ConfigError& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_EQ(error(R"({"sessions": [{"session": 3, "packet_size": 50, "top_rank": -1}]})"), "");
  EXPECT_EQ(read_sessions(path).sessions(0).packet_size(), 50u);
  EXPECT_THAT(error(R"({"sessions": [{"colour": 3}]})"), HasSubstr("colour"));
  EXPECT_THAT(error("{"), HasSubstr(path));
  EXPECT_THAT(error("{}"), HasSubstr("no sessions"));
  EXPECT_THROW(read_sessions("/nonexistent"), ConfigError);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tiercast::sender
