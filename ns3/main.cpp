// tiercast-ns3: runs one experiment in virtual time.
// SPDX-License-Identifier: GPL-2.0-only
//
// Standard input: the scenario, the switches' first entries, and then an answer to each question,
// as messages with their lengths in front. Standard output: lines of records and questions.
// docs/ns3.md describes both; `tiercast run --runtime ns3` starts this program.
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/standard_output.h"
#include "dataplane/engine/api/program.h"
#include "ns3/agents.h"
#include "ns3/control_link.h"
#include "ns3/kernel/kernel.h"
#include "ns3/network/division.h"
#include "ns3/network/records.h"
#include "ns3/network/trace_rows.h"
#include "ns3/network/virtual_network.h"
#include "ns3/queue_disc_trial.h"
#include "ns3/scenario.h"
#include "ns3/traffic/tcp_flows.h"
#include "ns3/traffic/udp_flows.h"
#include "protocols/base/units.h"

namespace {

using namespace tiercast;
using namespace tiercast::ns3_runtime;

constexpr std::uint32_t kMostThreads = 256;
constexpr std::int64_t kPortsNs = 1'000'000'000;  // between two records of ports and flows

// The last fields of a row, which it has if the scenario says so (Scenario::records_wires).
constexpr std::size_t kWireFieldsOfPort = 6, kWireFieldsOfSession = 3;

double figure(std::uint64_t value) { return static_cast<double>(value); }

// What only a program with the fates' counters knows; otherwise null.
double counted(const VirtualNetwork::PortView& view, std::uint64_t value) {
  return view.accounts.by_program ? figure(value) : std::nan("");
}

auto port_row(const VirtualNetwork::PortView& view) {
  const engine::PortStats& stats = view.stats;
  const accounts::Counts& counts = view.accounts.total;
  const accounts::IngressCounts& in = view.accounts.ingress;
  const auto of_program = [&](std::uint64_t value) { return counted(view, value); };
  return std::to_array<TraceField>({
      {"port", figure(view.port.port())},
      {"rx_packets", figure(stats.rx_packets)},
      {"rx_bytes", figure(stats.rx_bytes)},
      {"tx_packets", figure(stats.tx_packets)},
      {"tx_bytes", figure(stats.tx_bytes)},
      {"queue_packets", figure(stats.queue_packets)},
      {"max_queue_packets", figure(stats.max_queue_packets)},
      {"max_queue_bytes", figure(stats.max_queue_bytes)},
      {"entered", figure(counts.entered)},
      {"left", figure(counts.left)},
      {"marked", figure(counts.marked)},
      {"queue_drops", figure(counts.queue_drops)},
      {"policy_drops", figure(counts.policy_drops)},
      {"pruned", of_program(counts.pruned)},
      {"invalid", of_program(in.invalid)},
      {"expired", of_program(in.expired)},
      {"no_group", of_program(in.no_group)},
      {"no_route", of_program(in.no_route)},
      {"kernel_drops", 0},
      {"send_errors", 0},
      {"late_p50_us", 0},
      {"late_p99_us", 0},
      {"late_max_us", 0},
      {"down_drops", figure(counts.down_drops)},
      {"link_losses", figure(counts.link_losses)},
      {"duplicated", figure(counts.duplicated)},
      {"on_wire", figure(stats.on_wire_packets)},
      {"rx_link_losses", figure(stats.rx_lost_packets)},
      {"rx_duplicated", figure(stats.rx_duplicated_packets)},
  });
}

auto session_row(const VirtualNetwork::PortView& view, const accounts::SessionCounts& session) {
  const accounts::Counts& counts = session.counts;
  return std::to_array<TraceField>({
      {"port", figure(view.port.port())},
      {"session", static_cast<double>(session.session)},
      {"layer", static_cast<double>(session.layer)},
      {"entered", figure(counts.entered)},
      {"left", figure(counts.left)},
      {"marked", figure(counts.marked)},
      {"queue_drops", figure(counts.queue_drops)},
      {"policy_drops", figure(counts.policy_drops)},
      {"pruned", counted(view, counts.pruned)},
      {"waiting", figure(counts.waiting)},
      {"down_drops", figure(counts.down_drops)},
      {"link_losses", figure(counts.link_losses)},
      {"duplicated", figure(counts.duplicated)},
  });
}

class Simulation {
 public:
  Simulation(google::protobuf::io::ZeroCopyInputStream& input, std::uint32_t threads)
      : scenario_(read_scenario(input)),
        division_(divide(scenario_, threads)),
        kernel_(division_.thread_of, division_.window_ns, &Records::write_out),
        records_(scenario_.record_every_ns()),
        network_(scenario_, division_, kernel_),
        control_(input, kernel_.control(), scenario_.control_delay_ns(), network_, records_,
                 scenario_.seed(),
                 [this](std::int64_t at_ns, std::uint16_t session, int top) {
                   tell_sender(at_ns, session, top);
                 }),
        tcp_(kernel_, network_, records_, scenario_),
        udp_(kernel_, network_, records_, scenario_),
        traces_(network_, records_, scenario_) {
    control_.apply_first_answer();
    for (const v1::SimulatedSession& session : scenario_.sessions()) {
      senders_.push_back(std::make_unique<SenderAgent>(network_, records_, session));
      start_at(session.start_ns(), *senders_.back());
      for (const v1::SimulatedReceiver& receiver : session.receivers()) {
        receivers_.push_back(std::make_unique<ReceiverAgent>(
            network_, receiver.recorded() ? records_ : unrecorded_, session, receiver,
            [this](const HostSpec& at, const v1::SimulatedSession& of, Rank rank, bool joins) {
              control_.report(at, of, rank, joins);
            }));
        start_at(receiver.start_ns(), *receivers_.back());
      }
      if (session.stop_ns() > 0) {
        kernel_.pause_at(session.stop_ns(), [this, &session] { stop(session); });
      }
    }
    for (const v1::MemberChange& member : scenario_.members()) {
      kernel_.pause_at(member.at_ns(), [this, &member] { change(member); });
    }
    for (const v1::PortChange& port : scenario_.changes()) {
      kernel_.pause_at(port.at_ns(), [this, &port] { change(port); });
    }
  }

  void run() {
    report_ports_later();
    kernel_.run(scenario_.duration_ns());
    report_ports();
    traces_.report();
    report_unbalanced_ports();
    tcp_.report();
    udp_.report();
    for (const auto& receiver : receivers_) receiver->finish();
    for (const auto& sender : senders_) sender->finish();
    network_.finish_captures();
    records_.send_now("{\"end\":true}");
  }

 private:
  void start_at(std::int64_t at_ns, Agent& agent) {
    kernel_.pause_at(at_ns, [&agent] { agent.start(); });
  }

  void stop(const v1::SimulatedSession& stopped) {
    auto agent = receivers_.begin();
    auto sender = senders_.begin();
    for (const v1::SimulatedSession& session : scenario_.sessions()) {
      for (int i = 0; i < session.receivers_size(); ++i, ++agent) {
        if (&session == &stopped) (*agent)->stop();
      }
      if (&session == &stopped) (*sender)->stop();
      ++sender;
    }
  }

  void change(const v1::MemberChange& member) {
    auto agent = receivers_.begin();
    for (const v1::SimulatedSession& session : scenario_.sessions()) {
      for (const v1::SimulatedReceiver& receiver : session.receivers()) {
        ReceiverAgent& one = **agent++;
        if (session.session().session() != member.session() || receiver.host() != member.host()) {
          continue;
        }
        member.joins() ? one.start() : one.stop();
      }
    }
  }

  // Report first, so that rows separate what came before a link's change from what comes after.
  void change(const v1::PortChange& port) {
    for (const auto& receiver : receivers_) receiver->report_now();
    network_.apply(port);
    control_.report(port);
  }

  void tell_sender(std::int64_t at_ns, std::uint16_t session, int top_rank) {
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      if (scenario_.sessions(static_cast<int>(i)).session().session() != session) continue;
      SenderAgent& sender = *senders_[i];
      sender.process().at(at_ns, [&sender, top_rank] { sender.membership(top_rank); });
    }
  }

  void report_ports_later() {
    const std::int64_t next_ns = kernel_.now() + records_.interval(kPortsNs);
    if (next_ns >= scenario_.duration_ns()) return;  // run() does it at the end
    kernel_.pause_at(next_ns, [this] {
      report_ports();
      traces_.report();
      tcp_.report();
      udp_.report();
      report_ports_later();
    });
  }

  void report_ports() {
    const std::int64_t now = kernel_.now();
    for (const auto& view : network_.ports()) {
      const auto row = port_row(view);
      records_.add(now, view.switch_name, "port", shown(row, kWireFieldsOfPort), view.port.link());
      report_refused(now, view);
      report_sessions(view);
    }
    records_.send_now("{\"at_ns\":" + std::to_string(now) + "}");
  }

  // Only of ports that have refused something.
  void report_refused(std::int64_t now, const VirtualNetwork::PortView& view) {
    const accounts::IngressCounts& in = view.accounts.ingress;
    if (in.refused == 0 && in.policed == 0) return;
    records_.add(now, view.switch_name, "port.refused",
                 {{"port", figure(view.port.port())},
                  {"refused", figure(in.refused)},
                  {"policed", figure(in.policed)}},
                 view.port.link());
  }

  // Ports without rows are not sampled during the run, but their losses must be noticed.
  void report_unbalanced_ports() {
    for (const auto& view : network_.ports(false)) {
      if (!view.accounts.balanced()) report_sessions(view);
    }
  }

  void report_sessions(const VirtualNetwork::PortView& view) {
    const std::int64_t now = kernel_.now();
    for (const accounts::SessionCounts& session : view.accounts.sessions) {
      const auto row = session_row(view, session);
      records_.add(now, view.switch_name, "port.session", shown(row, kWireFieldsOfSession),
                   view.port.link());
    }
  }

  std::span<const TraceField> shown(std::span<const TraceField> row, std::size_t of_wires) const {
    return scenario_.records_wires() ? row : row.first(row.size() - of_wires);
  }

  const v1::Scenario scenario_;
  const Division division_;
  Kernel kernel_;
  Records records_;
  Records unrecorded_{0, true};
  VirtualNetwork network_;
  ControlLink control_;
  TcpFlows tcp_;
  UdpFlows udp_;
  TraceRows traces_;
  std::vector<std::unique_ptr<SenderAgent>> senders_;
  std::vector<std::unique_ptr<ReceiverAgent>> receivers_;
};

constexpr const char* kHelp =
    "tiercast-ns3: one experiment in virtual time, over ns-3.\n"
    "Reads the scenario, first entries and the controller's answers from standard input and "
    "writes\n"
    "records to standard output. Start it by: tiercast run EXPERIMENT --runtime ns3\n"
    "With --threads N it runs on up to N threads (1 to 256); the records do not depend on N.\n"
    "With --queue-disc it reads a trial of a marking and sends it through a queue disc of ns-3: "
    "tiercast\n"
    "marking starts it beside tiercast-marking.\n";

// The trial on standard input, through ns-3's queue disc.
void run_trial() {
  std::string line;
  std::getline(std::cin, line);
  v1::MarkingTrial trial;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &trial);
  if (!status.ok()) throw ConfigError("trial: " + std::string(status.message()));
  run_queue_disc(trial, [](const marking::PacketRecord& record) {
    marking::write_record(stdout, record, {});
  });
}

// From 1 to 256.
bool parse_threads(std::string_view text, std::uint32_t& threads) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, threads);
  return error == std::errc() && stopped == end && threads >= 1 && threads <= kMostThreads;
}

int run(int argc, char** argv) {
  std::uint32_t threads = 1;
  const bool has_threads =
      argc == 3 && argv[1] == std::string_view("--threads") && parse_threads(argv[2], threads);
  if (argc > 1 && !has_threads) {
    const std::string argument = argv[1];
    if (argument == "--version") {
      std::puts("tiercast-ns3 " TIERCAST_VERSION);
      return 0;
    }
    if (argument != "--queue-disc") {
      const bool wanted = argument == "--help";
      std::fputs(kHelp, wanted ? stdout : stderr);
      return wanted ? 0 : 2;
    }
  }
  std::ios::sync_with_stdio(false);
  try {
    if (argc > 1 && !has_threads) {
      run_trial();
      return 0;
    }
    google::protobuf::io::FileInputStream input(STDIN_FILENO);
    Simulation(input, threads).run();
    return 0;
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "tiercast-ns3: %s\n", error.what());
    return 2;
  } catch (const engine::LoadError& error) {
    std::fprintf(stderr, "tiercast-ns3: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tiercast-ns3: %s\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return end_output("tiercast-ns3", run(argc, argv)); }
