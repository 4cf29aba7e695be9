// A trial's account of each packet, against what is known beforehand.
#include "dataplane/marking/trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/config_error.h"

namespace tiercast::marking {
namespace {

constexpr std::uint32_t kIngress = 1, kPort = 2, kHost = 0x0a000102;
constexpr std::int64_t kService = 1'000'000;  // ns, of 1000 bytes at 8 Mbit/s

struct Seen {
  PacketRecord record;
  std::vector<std::uint64_t> registers;
};

std::string bytes(std::uint64_t value, unsigned count) {
  std::string result;
  while (count-- > 0) result.push_back(static_cast<char>(value >> 8 * count));
  return result;
}

void add_entry(v1::MarkingTrial& trial, const std::string& table, const std::string& key,
               const std::string& action, std::initializer_list<std::string> arguments) {
  v1::SwitchUpdate& update = *trial.add_updates();
  update.set_op(v1::SwitchUpdate::INSERT);
  update.mutable_entry()->set_table(table);
  update.mutable_entry()->add_match()->set_value(key);
  update.mutable_entry()->set_action(action);
  for (const std::string& argument : arguments) update.mutable_entry()->add_arguments(argument);
}

// A second of packets of 1000 bytes.
v1::MarkingTrial trial(double load, v1::TrialPhase::Arrivals arrivals = v1::TrialPhase::CONSTANT) {
  v1::MarkingTrial result;
  result.set_program(TIERCAST_JSON);
  result.set_ingress_port(kIngress);
  result.set_seed(1);
  result.mutable_port()->set_port(kPort);
  result.mutable_port()->set_rate_bps(8e6);
  result.mutable_port()->set_overhead_bytes(-14);
  add_entry(result, "ipv4_host", bytes(kHost, 4), "forward", {bytes(kPort, 2), bytes(0x02, 6)});
  v1::TrafficClass& packets = *result.add_classes();
  packets.set_destination(kHost);
  packets.set_mac(0x020000000101);
  packets.set_ecn(2);
  packets.set_packet_bytes(1000);
  packets.set_share(1);
  v1::TrialPhase& phase = *result.add_phases();
  phase.set_duration_ns(1'000'000'000);
  phase.set_offered_bps(load * 8e6);
  phase.set_arrivals(arrivals);
  phase.set_mean_burst(5);
  return result;
}

std::vector<Seen> seen(const v1::MarkingTrial& trial) {
  std::vector<Seen> result;
  run(trial, [&](const PacketRecord& record, std::span<const std::uint64_t> values) {
    result.push_back({record, {values.begin(), values.end()}});
  });
  return result;
}

// One queue, one link, in order: what each packet finds and how long it waits, calculated anew.
TEST(Trial, WaitsAndQueuesAreThoseOfALinkInOrder) {
  for (const auto arrivals : {v1::TrialPhase::POISSON, v1::TrialPhase::BURSTS}) {
    const auto packets = seen(trial(0.9, arrivals));
    ASSERT_GT(packets.size(), 700u);
    std::int64_t free = 0;
    std::vector<std::int64_t> begins;
    for (const Seen& one : packets) {
      const std::int64_t arrival = one.record.arrival_ns, begin = std::max(arrival, free);
      std::uint32_t waiting = 0;
      for (const std::int64_t earlier : begins) waiting += earlier > arrival;
      EXPECT_EQ(one.record.wait_ns, begin - arrival);
      EXPECT_EQ(one.record.found, waiting);
      EXPECT_EQ(one.record.fate, Fate::kLeft);
      free = begin + kService;
      begins.push_back(begin);
    }
    for (std::size_t i = 0; i < packets.size(); ++i) {
      std::uint32_t behind = 0;
      for (std::size_t later = i + 1; later < packets.size(); ++later) {
        behind += packets[later].record.arrival_ns < begins[i];
      }
      EXPECT_EQ(packets[i].record.left_behind, behind) << i;
    }
  }
}

TEST(Trial, OffersWhatItsPhasesSay) {
  for (const auto arrivals :
       {v1::TrialPhase::POISSON, v1::TrialPhase::CONSTANT, v1::TrialPhase::BURSTS}) {
    auto two = trial(0.5, arrivals);
    two.mutable_phases(0)->set_duration_ns(20'000'000'000);
    *two.add_phases() = two.phases(0);
    two.mutable_phases(1)->set_offered_bps(12e6);
    std::size_t first = 0, second = 0;
    for (const Seen& one : seen(two)) {
      (one.record.arrival_ns < 20'000'000'000 ? first : second) += 1;
    }
    const double spread = arrivals == v1::TrialPhase::BURSTS ? 30 : 4;  // deviations of bursts
    EXPECT_NEAR(static_cast<double>(first), 10'000, spread * 100);
    EXPECT_NEAR(static_cast<double>(second), 30'000, spread * 175);
  }
}

TEST(Trial, MarksAndDropsAreThePrograms) {
  auto marking = trial(1.2);
  add_entry(marking, "port_marking", bytes(kPort, 2), "threshold_marking", {bytes(10, 3)});
  for (const Seen& one : seen(marking)) {
    EXPECT_EQ(one.record.fate, one.record.found > 10 ? Fate::kMarked : Fate::kLeft);
  }
  auto dropping = trial(1.2);
  add_entry(dropping, "port_marking", bytes(kPort, 2), "drop_tail", {bytes(10, 3)});
  std::size_t dropped = 0;
  for (const Seen& one : seen(dropping)) {
    EXPECT_EQ(one.record.fate, one.record.found >= 10 ? Fate::kDropped : Fate::kLeft);
    EXPECT_GE(one.record.wait_ns, 0) << "a drop at departure comes in its turn";
    dropped += one.record.fate == Fate::kDropped;
  }
  EXPECT_GT(dropped, 100u);
}

TEST(Trial, TheQueuesOwnLimitAndRedDropOnArrival) {
  auto full = trial(1.5);
  full.mutable_port()->set_queue_packets(20);
  std::size_t lost = 0;
  for (const Seen& one : seen(full)) {
    EXPECT_EQ(one.record.fate, one.record.found >= 20 ? Fate::kQueueFull : Fate::kLeft);
    EXPECT_EQ(one.record.wait_ns < 0, one.record.fate == Fate::kQueueFull);
    lost += one.record.fate == Fate::kQueueFull;
  }
  EXPECT_GT(lost, 400u);

  auto red = trial(1.5);
  red.mutable_phases(0)->set_duration_ns(5'000'000'000);
  red.mutable_port()->mutable_red()->set_min_th(5);
  red.mutable_port()->mutable_red()->set_max_th(15);
  red.mutable_port()->mutable_red()->set_max_p(0.1);
  red.mutable_port()->mutable_red()->set_weight(0.1);
  red.mutable_port()->mutable_red()->set_mean_packet_bytes(500);
  lost = 0;
  for (const Seen& one : seen(red)) lost += one.record.fate == Fate::kDroppedEarly;
  EXPECT_NEAR(static_cast<double>(lost), 2500, 100);
}

TEST(Trial, RegistersAreAsThePacketWasDecidedOn) {
  auto priority = trial(1.1, v1::TrialPhase::POISSON);
  add_entry(priority, "port_marking", bytes(kPort, 2), "priority_marking",
            {bytes(5 << 8, 4), bytes(0, 4)});
  priority.add_registers("avg_queue");
  double average = 0;  // SIM 3.4, weight 1/8
  for (const Seen& one : seen(priority)) {
    const bool idle = one.record.wait_ns == 0 && one.record.found == 0;
    average = idle ? 0 : average + (one.record.left_behind - average) / 8;
    EXPECT_NEAR(static_cast<double>(one.registers[0]) / 256, average, 0.03);
  }
}

TEST(Trial, TheRateChangesWithThePhase) {
  auto slower = trial(0.5);
  *slower.add_phases() = slower.phases(0);
  slower.mutable_phases(1)->set_rate_bps(2e6);
  std::uint32_t longest = 0, before = 0;
  for (const Seen& one : seen(slower)) {
    (one.record.arrival_ns < 1'000'000'000 ? before : longest) =
        std::max(one.record.arrival_ns < 1'000'000'000 ? before : longest, one.record.found);
  }
  EXPECT_EQ(before, 0u);
  EXPECT_NEAR(longest, 250, 5) << "500 packets come in the second, and 250 leave";
}

TEST(Trial, APacketThatIsNotForwardedIsElsewhere) {
  auto lost = trial(0.5);
  lost.mutable_classes(0)->set_destination(kHost + 1);
  for (const Seen& one : seen(lost)) EXPECT_EQ(one.record.fate, Fate::kElsewhere);
}

// A full queue counts, too: what it drops has had an identification.
TEST(Trial, ManyPacketsMayArriveWhileOneWaits) {
  auto full = trial(2);
  full.mutable_phases(0)->set_duration_ns(60'000'000'000);
  full.mutable_port()->set_queue_packets(30'000);
  std::size_t left = 0, refused = 0;
  run(full, [&](const PacketRecord& record, std::span<const std::uint64_t>) {
    left += record.fate == Fate::kLeft ? 1 : 0;
    refused += record.fate == Fate::kQueueFull ? 1 : 0;
  });
  // 119,999 packets: half of them are sent meanwhile, and 30,000 afterwards.
  EXPECT_EQ(left, 60'000u + 30'000u);
  EXPECT_EQ(refused, 119'999u - left);
}

void expect_refusal(const v1::MarkingTrial& trial, const std::string& text) {
  try {
    run(trial, [](const PacketRecord&, std::span<const std::uint64_t>) {});
    ADD_FAILURE() << "accepted: " << text;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Trial, RefusesWithTheValueAndWhatIsValid) {
  auto wrong = trial(1);
  wrong.mutable_classes(0)->set_ecn(4);
  expect_refusal(wrong, "ecn 4; valid: 0 to 3");
  wrong = trial(1);
  wrong.mutable_classes(0)->set_packet_bytes(20);
  expect_refusal(wrong, "packet_bytes 20; valid: 28 to 65000");
  wrong = trial(1);
  wrong.clear_phases();
  expect_refusal(wrong, "phases: 0; valid: 1 to 1000");
  // An infinite rate or burst was a run without an end.
  for (const double value : {std::numeric_limits<double>::infinity(), 1e300, 0.0}) {
    wrong = trial(1);
    wrong.mutable_phases(0)->set_offered_bps(value);
    expect_refusal(wrong, "offered_bps");
    wrong = trial(1, v1::TrialPhase::BURSTS);
    wrong.mutable_phases(0)->set_mean_burst(value);
    expect_refusal(wrong, "mean_burst");
    wrong = trial(1);
    wrong.mutable_classes(0)->set_share(value);
    expect_refusal(wrong, "share");
  }
  wrong = trial(1);
  wrong.mutable_phases(0)->set_duration_ns(std::numeric_limits<std::int64_t>::max());
  expect_refusal(wrong, "duration_ns 9223372036854775807; valid: 1 to 1e15");
  wrong = trial(1);
  wrong.add_registers("no_such");
  expect_refusal(wrong, "no_such");
  wrong = trial(1);
  add_entry(wrong, "port_marking", bytes(kPort, 2), "no_such", {});
  expect_refusal(wrong, "no_such");
  wrong = trial(1);
  wrong.set_program("/nowhere.json");
  expect_refusal(wrong, "/nowhere.json: No such file or directory");
  wrong = trial(1);
  wrong.mutable_port()->set_rate_bps(0);
  expect_refusal(wrong, "port; valid: one with a rate");
  for (const std::uint32_t packets : {0, 40'000}) {
    wrong = trial(2);
    wrong.mutable_phases(0)->set_duration_ns(100'000'000'000);
    wrong.mutable_port()->set_queue_packets(packets);
    expect_refusal(wrong, "65536 packets arrived while one waited, port has queue_packets " +
                              std::to_string(packets));
  }
}

}  // namespace
}  // namespace tiercast::marking
