// tiercast-norm: see --help.
//
// Debian packages the library of NORM (RFC 5740) without a program. This one is no more than the
// library's own use: a stream, its congestion control, and a log.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <normApi.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "base/quantity.h"
#include "base/standard_output.h"
#include "base/unique_fd.h"

namespace {

using tiercast::UniqueFd;

constexpr std::string_view kHelp =
    R"(Sends or receives a stream with NORM (RFC 5740) and its congestion control.
Usage: tiercast-norm send|receive --group=ADDRESS --interface=NAME --id=NUMBER [OPTION...]

  --group             the multicast group
  --interface         where it is joined and sent to
  --id                of this node, 1 to 4294967294; no two are the same
  --port              of UDP, 1 to 65535; 6003 if left out
  --packet-size       IP bytes of a full packet of data, 200 to 1500; 1000 if left out
  --start-rate        of the sender; 256kbit/s if left out
  --unicast-feedback  a receiver answers the sender alone, not the group
  --help              show this text
  --version           show the version

The sender always has data. It ends on SIGINT or SIGTERM. Each line of output is JSON: what happened
(`event`), and when (`time_ns`, CLOCK_MONOTONIC). Each second a sender writes its rate and the round
trip that it assumes, and a receiver the data that it has read, in order and repaired. A receiver's
`first` says how long it waited for its first data.
)";

constexpr unsigned char kTimeToLive = 16;
constexpr int kData = 32;  // packets of a block, and its parity packets
constexpr int kParity = 8;
constexpr std::uint32_t kBuffer = 1 << 20;  // bytes
// Of IPv4 (20), UDP (8), and a packet of a stream: NORM's common header (8), the object's (8), the
// block's (4), the extension with the FEC's parameters (16), the payload's (8).
constexpr int kHeaders = 20 + 8 + 8 + 8 + 4 + 16 + 8;

class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  bool sends = false;
  std::string group;
  std::string interface;
  std::uint32_t id = 0;
  std::uint16_t port = 6003;
  std::uint16_t packet_size = 1000;
  double start_rate = 256e3;  // bit/s
  bool unicast_feedback = false;
};

template <typename Number>
Number read_number(std::string_view name, std::string_view text, Number least, Number most) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw OptionError(fmt::format("{}: '{}'; valid: {} to {}", name, text, least, most));
  return value;
}

Options read_options(int count, char** arguments) {
  Options options;
  if (count < 1 ||
      (arguments[0] != std::string_view("send") && arguments[0] != std::string_view("receive")))
    throw OptionError("the first argument is `send` or `receive`; see --help");
  options.sends = arguments[0] == std::string_view("send");
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(std::min(equals + 1, argument.size()));
    if (name == "--group") {
      in_addr address{};
      options.group = value;
      if (inet_pton(AF_INET, options.group.c_str(), &address) != 1 ||
          !IN_MULTICAST(ntohl(address.s_addr)))
        throw OptionError(
            fmt::format("{}: '{}'; valid: 224.0.0.0 to 239.255.255.255", name, value));
    } else if (name == "--interface") {
      options.interface = value;
    } else if (name == "--id") {
      options.id = read_number<std::uint32_t>(name, value, 1, NORM_NODE_ANY - 1);
    } else if (name == "--port") {
      options.port = read_number<std::uint16_t>(name, value, 1, 65535);
    } else if (name == "--packet-size") {
      options.packet_size = read_number<std::uint16_t>(name, value, 200, 1500);
    } else if (name == "--start-rate") {
      const auto rate = tiercast::read_rate(value);
      if (!rate || *rate < 1)
        throw OptionError(
            fmt::format("{}: '{}'; valid: such as {}", name, value, tiercast::kRateForms));
      options.start_rate = *rate;
    } else if (argument == "--unicast-feedback") {
      options.unicast_feedback = true;
    } else {
      throw OptionError(fmt::format("unknown argument '{}'; see --help", argument));
    }
  }
  if (options.group.empty() || options.interface.empty() || options.id == 0)
    throw OptionError("--group, --interface and --id are needed; see --help");
  if (if_nametoindex(options.interface.c_str()) == 0)
    throw OptionError(fmt::format("--interface: no '{}' here", options.interface));
  return options;
}

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

template <typename... Values>
void say(std::string_view event, fmt::format_string<Values...> more, Values&&... values) {
  fmt::print("{{\"time_ns\": {}, \"event\": \"{}\"{}}}\n", now_ns(), event,
             fmt::format(more, std::forward<Values>(values)...));
  std::fflush(stdout);
}

struct DestroyInstance {
  void operator()(const void* instance) const { NormDestroyInstance(instance); }
};

class Node {
 public:
  explicit Node(const Options& options)
      : options_(options), instance_(NormCreateInstance()), began_ns_(now_ns()) {
    require(instance_ != nullptr, "no instance of the library");
    session_ = NormCreateSession(instance_.get(), options.group.c_str(), options.port, options.id);
    require(session_ != NORM_SESSION_INVALID, "cannot join " + options.group);
    require(NormSetMulticastInterface(session_, options.interface.c_str()),
            "cannot use " + options.interface);
    NormSetTTL(session_, kTimeToLive);
    if (options.sends) {
      start_sending();
    } else {
      NormSetDefaultUnicastNack(session_, options.unicast_feedback);
      require(NormStartReceiver(session_, kBuffer), "cannot receive");
      say("joined", "");
    }
  }

  int descriptor() const { return NormGetDescriptor(instance_.get()); }

  void handle_events() {
    NormEvent event{};
    while (NormGetNextEvent(instance_.get(), &event, false)) {
      if (event.type == NORM_TX_QUEUE_VACANCY || event.type == NORM_TX_QUEUE_EMPTY)
        write();
      else if (event.type == NORM_RX_OBJECT_UPDATED)
        read(event.object);
      else if (event.type == NORM_RX_OBJECT_ABORTED)
        say("aborted", "");
    }
  }

  void report(std::string_view event) const {
    if (options_.sends)
      say(event, ", \"rate_bps\": {:.0f}, \"grtt_s\": {:.4f}, \"written\": {}",
          NormGetTxRate(session_), NormGetGrttEstimate(session_), bytes_);
    else
      say(event, ", \"read\": {}, \"breaks\": {}", bytes_, breaks_);
  }

 private:
  static void require(bool done, const std::string& what) {
    if (!done) throw std::runtime_error(what);
  }

  void start_sending() {
    NormSetCongestionControl(session_, true);
    NormSetTxRate(session_, options_.start_rate);
    const auto segment = static_cast<std::uint16_t>(options_.packet_size - kHeaders);
    require(NormStartSender(session_, NormGetRandomSessionId(), kBuffer, segment, kData, kParity),
            "cannot send");
    stream_ = NormStreamOpen(session_, kBuffer);
    require(stream_ != NORM_OBJECT_INVALID, "no stream");
    say("started", "");
    write();
  }

  void write() {
    const std::array<char, 4096> data{};
    unsigned written = 0;
    while ((written = NormStreamWrite(stream_, data.data(), data.size())) > 0) bytes_ += written;
  }

  void read(NormObjectHandle stream) {
    std::array<char, 4096> data{};
    while (true) {
      unsigned size = data.size();
      if (!NormStreamRead(stream, data.data(), &size)) {
        ++breaks_;  // data is lost for good; later reads go on behind the gap
        return;
      }
      if (size == 0) return;
      if (bytes_ == 0)
        say("first", ", \"waited_s\": {:.4f}", static_cast<double>(now_ns() - began_ns_) / 1e9);
      bytes_ += size;
    }
  }

  const Options& options_;
  std::unique_ptr<const void, DestroyInstance> instance_;
  NormSessionHandle session_ = NORM_SESSION_INVALID;
  NormObjectHandle stream_ = NORM_OBJECT_INVALID;
  std::int64_t began_ns_;
  std::uint64_t bytes_ = 0;  // of data, written or read
  std::uint64_t breaks_ = 0;
};

void run(const Options& options, const UniqueFd& stop) {
  const UniqueFd seconds(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec each{{1, 0}, {1, 0}};
  if (seconds.get() < 0 || timerfd_settime(seconds.get(), 0, &each, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "timer");
  Node node(options);
  std::array<pollfd, 3> waits{
      {{node.descriptor(), POLLIN, 0}, {seconds.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}}};
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    if (waits[0].revents != 0) node.handle_events();
    if (waits[1].revents != 0) {
      std::uint64_t expirations = 0;
      if (::read(seconds.get(), &expirations, sizeof expirations) > 0) node.report("second");
    }
    if (waits[2].revents != 0) break;
  }
  node.report("end");
}

int run(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      fmt::print("{}", kHelp);
      return 0;
    }
    if (argument == "--version") {
      fmt::print("tiercast-norm {}\n", TIERCAST_VERSION);
      return 0;
    }
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before the library starts its thread
  try {
    const Options options = read_options(argc - 1, argv + 1);
    const UniqueFd stop(signalfd(-1, &signals, SFD_CLOEXEC));
    run(options, stop);
    return 0;
  } catch (const OptionError& error) {
    fmt::print(stderr, "tiercast-norm: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-norm: {}\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) { return tiercast::end_output("tiercast-norm", run(argc, argv)); }
