// tiercast-delay-line: see --help.
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/standard_output.h"
#include "dataplane/delay_line/delay_lines.h"

namespace {

constexpr std::string_view kHelp = R"(Delays frames between pairs of interfaces.
Usage: tiercast-delay-line --line=A,B,DELAY[,DELAY-FROM-B-TO-A] ...

  --line     a frame that arrives on A leaves on B after DELAY, and one from B on A; repeatable
  --help     show this text
  --version  show the version

Each second, and when SIGINT or SIGTERM ends it, it writes a line of JSON with its totals.

Example: 5 ms from in1 to eth1, nothing back
  tiercast-delay-line --line=in1,eth1,5ms,0
)";

void print(const tiercast::delay_line::Stats& stats) {
  fmt::print(
      "{{\"time_ns\": {}, \"frames\": {}, \"kernel_drops\": {}, \"send_errors\": {}, "
      "\"late_over_1ms\": {}, \"late_max_us\": {}, \"longest_pause_us\": {}}}\n",
      stats.time_ns, stats.frames, stats.kernel_drops, stats.send_errors, stats.late_over_1ms,
      stats.late_max_ns / 1000, stats.longest_pause_ns / 1000);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  using namespace tiercast::delay_line;
  std::vector<LineOption> options;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      constexpr std::string_view kLine = "--line=";
      if (argument == "--help" || argument == "-h") {
        fmt::print("{}", kHelp);
        return 0;
      }
      if (argument == "--version") {
        fmt::print("tiercast-delay-line {}\n", TIERCAST_VERSION);
        return 0;
      }
      if (!argument.starts_with(kLine))
        throw OptionError(
            fmt::format("unknown argument '{}'; valid: --line=, --help, --version", argument));
      options.push_back(parse_line(argument.substr(kLine.size())));
    }
    if (options.empty()) throw OptionError("no --line; see --help");
  } catch (const OptionError& error) {
    fmt::print(stderr, "tiercast-delay-line: {}\n", error.what());
    return 2;
  }

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  try {
    const tiercast::UniqueFd stop(signalfd(-1, &signals, SFD_CLOEXEC));
    DelayLines lines(options);
    lines.run(stop.get(), print);
    return 0;
  } catch (const std::system_error& error) {
    fmt::print(stderr, "tiercast-delay-line: {}\n", error.what());
    return error.code() == std::errc::no_such_device ? 2 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::end_output("tiercast-delay-line", run(argc, argv));
}
