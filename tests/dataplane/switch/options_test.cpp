#include "dataplane/switch/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <tuple>
#include <vector>

namespace tiercast::vswitch {
namespace {

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const OptionError& error) {
    return error.what();
  }
  return "no error";
}

ParseOutcome parse(std::vector<const char*> arguments, Options& options) {
  arguments.insert(arguments.begin(), "tiercast-switch");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data(), options);
}

TEST(Options, PortWithEveryParameter) {
  const PortOption port = parse_port(
      "12=s1-eth12,rate=6Mbit/s,queue=50p/30000B,delay=5ms,overhead=-14B,rx-delay=2.5ms,"
      "scheduling=fair");
  EXPECT_EQ(port.number, 12u);
  EXPECT_EQ(port.interface, "s1-eth12");
  EXPECT_DOUBLE_EQ(port.link.rate_bps, 6e6);
  EXPECT_EQ(port.link.queue_packets, 50u);
  EXPECT_EQ(port.link.queue_bytes, 30000u);
  EXPECT_EQ(port.link.delay_ns, 5'000'000);
  EXPECT_EQ(port.link.overhead_bytes, -14);
  EXPECT_EQ(port.link.rx_delay_ns, 2'500'000);
  EXPECT_TRUE(port.link.fair_queueing);
  EXPECT_FALSE(port.link.layered);
  const PortOption layered = parse_port("1=eth0,scheduling=layered");
  EXPECT_TRUE(layered.link.fair_queueing);
  EXPECT_TRUE(layered.link.layered);
}

TEST(Options, PortWithoutParametersIsUnlimited) {
  const PortOption port = parse_port("1=eth0");
  EXPECT_EQ(port.link.rate_bps, 0);
  EXPECT_EQ(port.link.queue_packets, 0u);
  EXPECT_EQ(port.link.delay_ns, 0);
  EXPECT_FALSE(port.link.fair_queueing);
  EXPECT_FALSE(parse_port("1=eth0,scheduling=fifo").link.fair_queueing);
  EXPECT_THROW(parse_port("1=eth0,scheduling=rr"), OptionError);
}

TEST(Options, Red) {
  EXPECT_FALSE(parse_port("1=eth0").link.red);
  EXPECT_EQ(parse_port("1=eth0,red=min_th:5").link.red, engine::RedConfig());
  EXPECT_EQ(parse_port("1=eth0,red=min_th:2.5/max_th:9/max_p:0.02/weight:0.01/"
                       "mean_packet_bytes:1000/gentle:1/wait:0/ecn:1/mark_above_max:1")
                .link.red,
            (engine::RedConfig{.min_th = 2.5,
                               .max_th = 9,
                               .max_p = 0.02,
                               .weight = 0.01,
                               .mean_packet_bytes = 1000,
                               .gentle = true,
                               .wait = false,
                               .ecn = true,
                               .mark_above_max = true}));
  for (const char* wrong : {"", "min_th", "min_th:", "min_th:x", "min_th:5/", "ecn:true",
                            "min_th:5/min_th:5", "min_th:15", "max_p:nan"})
    EXPECT_THROW(parse_port(std::string("1=eth0,red=") + wrong), OptionError) << wrong;
}

TEST(Options, Rates) {
  EXPECT_DOUBLE_EQ(parse_rate("250kbit/s"), 250e3);
  EXPECT_DOUBLE_EQ(parse_rate("1.5Gbit/s"), 1.5e9);
  EXPECT_DOUBLE_EQ(parse_rate("800bit/s"), 800);
  EXPECT_DOUBLE_EQ(parse_rate("0"), 0);
  for (const char* wrong :
       {"", "6", "6Mbit", "6mbit/s", "-1Mbit/s", "nanMbit/s", "6 Mbit/s", "2000Gbit/s", "Mbit/s"})
    EXPECT_THROW(parse_rate(wrong), OptionError) << wrong;
}

TEST(Options, Durations) {
  EXPECT_EQ(parse_duration("5ms"), 5'000'000);
  EXPECT_EQ(parse_duration("0.5us"), 500);
  EXPECT_EQ(parse_duration("60s"), 60'000'000'000);
  EXPECT_EQ(parse_duration("0"), 0);
  for (const char* wrong : {"", "5", "5m", "-5ms", "61s", "ms", "5 ms"})
    EXPECT_THROW(parse_duration(wrong), OptionError) << wrong;
}

TEST(Options, ErrorsNamePlaceValueAndValidChoices) {
  EXPECT_EQ(error_of([] { parse_port("1=eth0,rate=6Mbit"); }),
            "--port '1=eth0,rate=6Mbit': rate: '6Mbit' is not a rate; valid: 6Mbit/s, 300kbit/s, "
            "1.5Gbit/s, 800bit/s or 2500B/s, at most 1000Gbit/s; 0 means unlimited");
  EXPECT_EQ(error_of([] { parse_port("1=eth0,queue=50"); }),
            "--port '1=eth0,queue=50': queue: '50' is not a queue limit; valid: 50p, 30000B or "
            "50p/30000B; 0 means no limit");
  EXPECT_EQ(error_of([] { parse_port("1=eth0,mtu=9"); }),
            "--port '1=eth0,mtu=9': mtu: unknown parameter; valid: rate, queue, delay, overhead, "
            "rx-delay, scheduling, red");
  EXPECT_EQ(error_of([] { parse_port("1=eth0,red=min:5"); }),
            "--port '1=eth0,red=min:5': red: 'min:5' is no parameter of RED; valid: min_th:5, "
            "max_th:15, max_p:0.1, weight:0.002, mean_packet_bytes:500, gentle:0, wait:1, ecn:0, "
            "mark_above_max:0, joined by '/'");
  EXPECT_EQ(error_of([] { parse_port("1=eth0,red=max_p:1.5"); }),
            "--port '1=eth0,red=max_p:1.5': red: max_p 1.500000, valid: above 0, to 1");
  EXPECT_EQ(error_of([] { parse_port("0=eth0"); }),
            "--port '0=eth0': port number '0' is not one of 1 to 510");
  EXPECT_EQ(error_of([] { parse_port("510=eth0"); }),
            "--port '510=eth0': port number 510 is the CPU port (--cpu-port)");
  EXPECT_EQ(error_of([] { parse_port("1=eth0,delay=1ms,delay=2ms"); }),
            "--port '1=eth0,delay=1ms,delay=2ms': delay: given twice");
  EXPECT_EQ(error_of([] { parse_port("1=this-name-is-too-long"); }),
            "--port '1=this-name-is-too-long': interface name 'this-name-is-too-long' does not "
            "have 1 to 15 characters");
}

TEST(Options, QueueLimitsAreWholeNumbersGivenOnce) {
  for (const char* wrong : {"p", "B", "5p/6p", "5p/", "/5B", "-5p", "1.5p", "5000000000p"})
    EXPECT_THROW(parse_port(std::string("1=eth0,queue=") + wrong), OptionError) << wrong;
}

TEST(Options, CommandLine) {
  Options options;
  EXPECT_EQ(parse({"--device-id", "7", "--port", "1=a", "--port", "2=b,rate=1Mbit/s", "--grpc",
                   "unix:/run/s7.sock", "--name", "s7", "--log-level", "debug"},
                  options),
            ParseOutcome::kRun);
  EXPECT_EQ(options.device_id, 7u);
  ASSERT_EQ(options.ports.size(), 2u);
  EXPECT_EQ(options.ports[1].interface, "b");
  EXPECT_EQ(options.cpu_port, 510u);
}

TEST(Options, WrongCommandLinesEndWithUsage) {
  const std::vector<std::vector<const char*>> lines = {
      {},
      {"--device-id", "0", "--port", "1=a", "--grpc", "h:1"},
      {"--device-id", "1", "--port", "1=a"},
      {"--device-id", "1", "--port", "1=a", "--port", "1=b", "--grpc", "h:1"},
      {"--device-id", "1", "--port", "1=a", "--port", "2=a", "--grpc", "h:1"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "nowhere"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "host:0"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "unix:relative"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "h:1", "--json", "/no/such/file"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "h:1", "--log-level", "loud"},
      {"--device-id", "1", "--port", "1=a", "--grpc", "h:1", "--frobnicate"},
  };
  for (const auto& line : lines) {
    Options options;
    EXPECT_EQ(parse(line, options), ParseOutcome::kExitUsage)
        << (line.empty() ? "nothing" : line.back());
  }
}

ParseOutcome parse_all(std::vector<const char*> arguments, std::vector<Options>& switches) {
  arguments.insert(arguments.begin(), "tiercast-switch");
  return parse_switches(static_cast<int>(arguments.size()), arguments.data(), switches);
}

TEST(Options, SeveralSwitches) {
  std::vector<Options> switches;
  EXPECT_EQ(
      parse_all({"--log-level", "debug",  "--cpu-port", "509",      "--switch",    "--device-id",
                 "3",           "--port", "1=a",        "--port",   "2=b",         "--workers",
                 "2",           "--grpc", "h:1",        "--switch", "--device-id", "4",
                 "--port",      "1=c",    "--grpc",     "h:2"},
                switches),
      ParseOutcome::kRun);
  ASSERT_EQ(switches.size(), 2u);
  EXPECT_EQ(switches[0].device_id, 3u);
  EXPECT_EQ(switches[0].ports.size(), 2u);
  EXPECT_EQ(switches[0].workers, 2u);
  EXPECT_EQ(switches[1].device_id, 4u);
  EXPECT_EQ(switches[1].ports[0].interface, "c");
  EXPECT_EQ(switches[1].workers, 1u);
  for (const Options& one : switches) {
    EXPECT_EQ(one.cpu_port, 509u);
    EXPECT_EQ(one.log_level, "debug");
  }
}

TEST(Options, OneSwitchNeedsNoGroup) {
  std::vector<Options> switches;
  EXPECT_EQ(parse_all({"--device-id", "1", "--port", "1=a", "--grpc", "h:1"}, switches),
            ParseOutcome::kRun);
  EXPECT_EQ(switches.size(), 1u);
}

// What is said of a switch s1 with one port, beside a switch s2 with another.
std::string said_of_link(const char* first, const char* second) {
  std::vector<Options> switches;
  testing::internal::CaptureStderr();
  const ParseOutcome outcome =
      parse_all({"--switch", "--name", "s1", "--device-id", "1", "--grpc", "h:1", "--port", first,
                 "--switch", "--name", "s2", "--device-id", "2", "--grpc", "h:2", "--port", second},
                switches);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(outcome == ParseOutcome::kRun, said.empty());
  return said;
}

TEST(Options, BothEndsOfALinkNameEachOther) {
  EXPECT_EQ(said_of_link("1=link:s2.7,rate=6Mbit/s", "7=link:s1.1"), "");
  EXPECT_THAT(
      said_of_link("1=link:s2.7", "8=link:s1.1"),
      testing::HasSubstr("switch s1: --port 1=link:s2.7: no switch of this process has this port; "
                         "valid: link:NAME.PORT of a port that is link:s1.1"));
  EXPECT_THAT(said_of_link("1=link:s2.7", "7=eth0"),
              testing::HasSubstr("that port is eth0; valid: link:s1.1"));
  EXPECT_THAT(said_of_link("1=link:s1.1", "7=eth0"),
              testing::HasSubstr("a port cannot be linked to itself"));
  EXPECT_THAT(said_of_link("1=link:", "7=eth0"),
              testing::HasSubstr("no switch of this process has this port"));
}

TEST(Options, SwitchesThatCannotStandBesideEachOther) {
  const std::vector<const char*> first = {"--switch", "--device-id", "1",  "--port",
                                          "1=a",      "--grpc",      "h:1"};
  const std::vector<std::vector<const char*>> seconds = {
      {"--switch", "--device-id", "1", "--port", "1=b", "--grpc", "h:2"},
      {"--switch", "--device-id", "2", "--port", "1=a", "--grpc", "h:2"},
      {"--switch", "--device-id", "2", "--port", "1=b", "--grpc", "h:1"},
      {"--switch", "--device-id", "2", "--port", "1=b"},
      {"--switch"},
  };
  for (const auto& second : seconds) {
    std::vector<const char*> words = first;
    words.insert(words.end(), second.begin(), second.end());
    std::vector<Options> switches;
    EXPECT_EQ(parse_all(words, switches), ParseOutcome::kExitUsage) << second.back();
  }
}

TEST(Options, NoMoreWorkersThanPorts) {
  Options options;
  EXPECT_EQ(
      parse({"--device-id", "1", "--port", "1=a", "--grpc", "h:1", "--workers", "2"}, options),
      ParseOutcome::kExitUsage);
}

TEST(Options, MaxSleeps) {
  Options options;
  EXPECT_EQ(parse({"--device-id", "1", "--port", "1=a", "--grpc", "h:1"}, options),
            ParseOutcome::kRun);
  EXPECT_EQ(options.max_sleeps, 0u);
  for (const auto& [port, sleeps, outcome] :
       std::vector<std::tuple<const char*, const char*, ParseOutcome>>{
           {"1=a", "2000", ParseOutcome::kRun},
           {"1=a", "99", ParseOutcome::kExitUsage},
           {"1=a", "1000001", ParseOutcome::kExitUsage},
           {"1=a", "-1", ParseOutcome::kExitUsage},
           {"1=dpdk:net_null0", "2000", ParseOutcome::kExitUsage},  // never sleeps
       }) {
    Options one;
    EXPECT_EQ(
        parse({"--device-id", "1", "--port", port, "--grpc", "h:1", "--max-sleeps", sleeps}, one),
        outcome)
        << port << " " << sleeps;
  }
}

TEST(Options, LinkedSwitchesSleepAlike) {
  const std::vector<const char*> words = {
      "--switch", "--name", "s1", "--device-id", "1", "--port", "1=link:s2.1", "--grpc", "h:1",
      "--switch", "--name", "s2", "--device-id", "2", "--port", "1=link:s1.1", "--grpc", "h:2"};
  const auto outcome = [&](std::size_t at) {
    std::vector<const char*> with = words;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(at), {"--max-sleeps", "2000"});
    std::vector<Options> switches;
    return parse_all(with, switches);
  };
  EXPECT_EQ(outcome(0), ParseOutcome::kRun);  // for all
  EXPECT_EQ(outcome(1), ParseOutcome::kExitUsage);
  EXPECT_EQ(outcome(words.size()), ParseOutcome::kExitUsage);
}

TEST(Options, HelpAndVersion) {
  Options options;
  EXPECT_EQ(parse({"--help"}, options), ParseOutcome::kExitOk);
  EXPECT_EQ(parse({"--version"}, options), ParseOutcome::kExitOk);
}

}  // namespace
}  // namespace tiercast::vswitch
