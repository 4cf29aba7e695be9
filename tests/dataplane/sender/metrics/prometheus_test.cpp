#include "dataplane/sender/metrics/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <map>
#include <string>

#include "dataplane/dpdk/metrics_server.h"
#include "dataplane/sender/metrics/live_view.h"
#include "dataplane/sender/metrics/summary.h"

namespace tiercast::sender {
namespace {

using dpdk::MetricsServer;

using ::testing::HasSubstr;

Statistics example() {
  Statistics statistics;
  statistics.taken = Time::nanoseconds(5'000'000'000);
  WorkerStatistics& worker = statistics.workers.emplace_back();
  worker.lcore = 3;
  worker.sessions = 2;
  worker.layers = 9;
  worker.generated = 1010;
  worker.sent = 1000;
  worker.sent_bytes = 1'000'000;
  worker.dropped = 10;
  worker.feedback_delivered = 50;
  worker.feedback_refused = 8;
  worker.feedback_refusals = {.non_member = 3, .impersonated = 2};
  worker.late.add_to_bin(Histogram::bin_of(63), 4);
  worker.late.add_to_bin(Histogram::bin_of(64), 3);
  worker.late.add_to_bin(Histogram::bin_of(5'000'000'000), 1);  // above the last bucket
  worker.late.raise_max(5'000'000'000);
  statistics.workers.push_back(worker);
  statistics.workers.back().lcore = 4;
  PortStatistics& port = statistics.ports.emplace_back();
  port.device = "net_null0";
  port.feedback.malformed = 7;
  statistics.layers.push_back({.session = 1,
                               .rank = 0,
                               .rate = Rate::bits_per_second(8e6),
                               .packet_size = 1000,
                               .generated = 0,
                               .sent = 0,
                               .dropped = 0});
  return statistics;
}

std::map<std::string, prometheus::MetricFamily> families() {
  std::map<std::string, prometheus::MetricFamily> found;
  for (auto& family : metric_families(example())) found[family.name] = family;
  return found;
}

TEST(SenderMetrics, EachWorkerHasItsCounts) {
  const auto found = families();
  const auto& sent = found.at("tiercast_sender_sent_packets_total");
  EXPECT_EQ(sent.type, prometheus::MetricType::Counter);
  ASSERT_EQ(sent.metric.size(), 2u);
  EXPECT_EQ(sent.metric[0].label[0].name, "lcore");
  EXPECT_EQ(sent.metric[0].label[0].value, "3");
  EXPECT_EQ(sent.metric[0].label[1].name, "port");
  EXPECT_EQ(sent.metric[0].label[1].value, "net_null0");
  EXPECT_EQ(sent.metric[0].counter.value, 1000);
  EXPECT_EQ(found.at("tiercast_sender_layers").metric[1].gauge.value, 9);
  EXPECT_EQ(found.at("tiercast_sender_link_up").metric[0].gauge.value, 1);
}

TEST(SenderMetrics, FeedbackIsCountedOnceByItsFate) {
  std::map<std::string, double> fates;
  const auto found = families();
  for (const auto& metric : found.at("tiercast_sender_feedback_frames_total").metric) {
    fates[metric.label[0].value] = metric.counter.value;
  }
  EXPECT_EQ(fates["accepted"], 84);  // of two workers
  EXPECT_EQ(fates["non_member"], 6);
  EXPECT_EQ(fates["impersonated"], 4);
  EXPECT_EQ(fates["refused"], 16);
  EXPECT_EQ(fates["malformed"], 7);
}

// Prometheus's rules: buckets are cumulative and in ascending order, and the last one is infinite
// and equals the count.
TEST(SenderMetrics, HistogramsAreCumulativeAndComplete) {
  const auto found = families();
  const auto& lateness = found.at("tiercast_sender_lateness_seconds").metric[0].histogram;
  EXPECT_EQ(lateness.sample_count, 8u);
  EXPECT_EQ(lateness.bucket.front().cumulative_count, 4u);  // up to 63 ns
  EXPECT_EQ(lateness.bucket[1].cumulative_count, 7u);       // up to 127 ns
  EXPECT_EQ(lateness.bucket.back().cumulative_count, 8u);
  EXPECT_TRUE(std::isinf(lateness.bucket.back().upper_bound));
  EXPECT_TRUE(std::is_sorted(
      lateness.bucket.begin(), lateness.bucket.end(), [](const auto& a, const auto& b) {
        return a.upper_bound < b.upper_bound && a.cumulative_count <= b.cumulative_count;
      }));
  EXPECT_NEAR(lateness.sample_sum, 5.0, 5.0 * 0.032);
}

TEST(SenderMetrics, WrongAddressesAreNamed) {
  for (const char* address : {"", "9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                              "127.0.0.1:70000", "127.0.0.1:94x", "1.2.3.4:80,5.6.7.8:80"}) {
    try {
      MetricsServer server(address, true, [] { return metric_families(Statistics()); });
      FAIL() << address;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--metrics")) << address;
    }
  }
  EXPECT_THROW(
      MetricsServer("203.0.113.1:9464", true, [] { return metric_families(Statistics()); }),
      ConfigError);
}

TEST(SenderMetrics, OnlyThisMachineReadsThemUnlessToldOtherwise) {
  for (const char* address : {"0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464"}) {
    try {
      MetricsServer server(address, false, [] { return metric_families(Statistics()); });
      FAIL() << address;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--insecure")) << address;
    }
  }
}

TEST(SenderSummary, NamesWantedSentLostAndLate) {
  Statistics statistics = example();  // two workers, each 1010 generated, 10 dropped
  statistics.workers[0].given_up = 5;
  statistics.workers[0].behind = 3;
  statistics.ports[0].feedback.received = 107;
  const std::string text = summary(statistics, Duration::milliseconds(2000));
  EXPECT_THAT(text, HasSubstr("sent 2000 of 2025 wanted packets in 2.0 s (1.00 k packets/s, 8.00 "
                              "Mbit/s of IP)"));
  EXPECT_THAT(text, HasSubstr("lost 25 (1.2346 %): 20 dropped, 5 skipped after stalls"));
  EXPECT_THAT(text, HasSubstr("3 by more than 100 us"));
  EXPECT_THAT(text, HasSubstr("feedback: 107 frames: 100 delivered, 16 refused, 7 malformed"));
  EXPECT_EQ(summary(Statistics(), Duration::zero()).find("feedback"), std::string::npos);
}

TEST(SenderLiveView, ShowsRatesOfTheTimeSinceTheLastTable) {
  LiveView view;
  Statistics statistics = example();
  EXPECT_THAT(view.draw(statistics),
              HasSubstr("on net_null0 (link up), 0 s, wanted 1.00 k packets/s"));
  statistics.taken = statistics.taken + Duration::milliseconds(500);
  statistics.workers[0].sent += 7'400'000;
  statistics.workers[0].late.add_to_bin(Histogram::bin_of(1500), 1000);
  statistics.ports[0].link_up = false;
  const std::string table = view.draw(statistics);
  EXPECT_THAT(table, HasSubstr("link DOWN"));
  EXPECT_THAT(table, HasSubstr("14.8 M"));
  EXPECT_THAT(table, HasSubstr("1.5 us"));  // of the new ones only
  EXPECT_THAT(table, HasSubstr("7 malformed"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
}

TEST(SenderLiveView, DrawsOverWhatItDrew) {
  LiveView view;
  std::FILE* terminal = std::tmpfile();
  view.show(example(), terminal);
  view.show(example(), terminal);
  std::rewind(terminal);
  std::string written(4096, '\0');
  written.resize(std::fread(written.data(), 1, written.size(), terminal));
  std::fclose(terminal);
  EXPECT_EQ(written.find("\033["), written.find("\033[5F\033[J"));
  EXPECT_NE(written.find("\033[5F\033[J"), std::string::npos);
}

}  // namespace
}  // namespace tiercast::sender
