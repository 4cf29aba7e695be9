#include "dataplane/dpdk/eal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/interface.h"
#include "base/unique_fd.h"
#include "protocols/base/units.h"

namespace tiercast::dpdk {
namespace {

std::string device_choices() {
  return fmt::format(
      "Give one device in the EAL arguments before '--':\n"
      "  --vdev=net_af_packet0,iface=NAME   NAME one of: {}\n"
      "  --vdev=net_pcap0,rx_pcap=IN,tx_pcap=OUT   --vdev=net_null0   --vdev=net_ring0\n"
      "  -a PCI-ADDRESS                     a NIC bound to vfio-pci (dpdk-devbind.py -s lists "
      "them)",
      agent::interface_names());
}

std::vector<unsigned> permitted_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

bool has_option(const std::vector<std::string>& arguments,
                std::initializer_list<std::string_view> prefixes) {
  return std::any_of(arguments.begin(), arguments.end(), [&](std::string_view argument) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return argument.starts_with(prefix); });
  });
}

// The EAL prints its usage to standard output, where only the trace may go; where its arguments
// are wrong, it would bury the cause.
int init_eal(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  std::fflush(stdout);
  const UniqueFd standard_output(dup(STDOUT_FILENO));
  const bool help = has_option(arguments, {"-h", "--help"});
  const UniqueFd elsewhere(help ? dup(STDERR_FILENO) : open("/dev/null", O_WRONLY | O_CLOEXEC));
  dup2(elsewhere.get(), STDOUT_FILENO);
  const int result = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  dup2(standard_output.get(), STDOUT_FILENO);
  return result;
}

std::uint64_t reserved_huge_pages() {
  std::uint64_t pages = 0;
  std::error_code error;
  for (const auto& size : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", error)) {
    std::uint64_t count = 0;
    std::ifstream(size.path() / "nr_hugepages") >> count;
    pages += count;
  }
  return pages;
}

// The CPUs of "0,2-4", or of "0@1,(1,2)@(2-3)" those after an '@'. Other characters end the list:
// what the EAL understands beyond this, it judges itself.
std::vector<unsigned> cpus_of(std::string_view text) {
  std::vector<unsigned> cpus;
  const bool placed = text.find('@') != std::string_view::npos;
  bool counts = !placed;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      const auto number = [&] {
        unsigned value = 0;
        while (at < text.size() && text[at] >= '0' && text[at] <= '9' && value < 100'000) {
          value = value * 10 + static_cast<unsigned>(text[at++] - '0');
        }
        return value;
      };
      const unsigned first = number();
      unsigned last = first;
      if (at + 1 < text.size() && text[at] == '-') {
        ++at;
        last = number();
      }
      for (unsigned cpu = first; counts && cpu <= last && cpu - first < CPU_SETSIZE; ++cpu) {
        cpus.push_back(cpu);
      }
      continue;
    }
    if (c == '(') inside = true;
    if (c == ')') inside = false;
    if (c == '@') counts = true;
    if (c == ',' && placed && !inside) counts = false;
    ++at;
  }
  return cpus;
}

}  // namespace

std::string cpu_problem(const std::vector<std::string>& arguments,
                        const std::vector<unsigned>& cpus) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    std::string_view list;
    for (const std::string_view option : {"--lcores", "-l"}) {
      if (!argument.starts_with(option)) continue;
      list = std::string_view(argument).substr(option.size());
      if (list.empty() && i + 1 < arguments.size()) list = arguments[i + 1];
      if (list.starts_with('=')) list.remove_prefix(1);
      break;
    }
    if (list.empty() || argument.starts_with("--log") || argument.starts_with("--legacy")) continue;
    for (const unsigned cpu : cpus_of(list)) {
      if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) {
        return fmt::format("{}: there is no CPU {} for this program; valid: {}",
                           argument.starts_with("--lcores") ? "--lcores" : "-l", cpu,
                           fmt::join(cpus, ", "));
      }
    }
  }
  return "";
}

std::string eal_hint(int error, const std::vector<std::string>& arguments,
                     std::uint64_t huge_pages) {
  if (has_option(arguments, {"--no-huge"})) {
    return error == ENOMEM ? "Without huge pages the EAL takes the memory of -m (in MB), such as "
                             "-m 128."
                           : "";
  }
  if (error != EACCES && error != ENOMEM && error != EPERM && error != ENOENT) return "";
  const std::string there =
      huge_pages == 0 ? "This machine has reserved no huge pages."
                      : fmt::format(
                            "This machine has reserved {} huge pages, which other programs "
                            "may hold or this user may not use.",
                            huge_pages);
  return there +
         " Either add --no-huge (with -m MB, such as -m 128): net_af_packet, net_null, net_ring, "
         "net_tap and net_pcap need none. Or, for a NIC, reserve some as root: "
         "echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
}

Eal::Eal(const std::string& program, const std::vector<std::string>& arguments)
    : given_(fmt::format("{}", fmt::join(arguments, " "))) {
  const std::vector<unsigned> cpus = permitted_cpus();
  if (const std::string problem = cpu_problem(arguments, cpus); !problem.empty()) {
    throw ConfigError(problem);
  }
  std::vector<std::string> all{program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  // Otherwise the EAL would pin this thread to one core and start an idle thread on each of the
  // others.
  if (!has_option(arguments, {"-l", "-c", "--lcores"})) {
    all.push_back(fmt::format("--lcores=0@({})", fmt::join(cpus, ",")));
  }
  // Otherwise the huge pages stay allocated after the program has ended, in files that only the
  // next run can reuse.
  if (!has_option(arguments,
                  {"--in-memory", "--no-huge", "--huge-unlink", "--legacy-mem", "--proc-type"})) {
    all.push_back("--in-memory");
  }
  if (!has_option(arguments, {"--log-level"})) all.push_back("--log-level=warning");
  if (init_eal(std::move(all)) < 0) {
    const int error = rte_errno;
    const std::string hint = eal_hint(error, arguments, reserved_huge_pages());
    throw ConfigError(fmt::format("the EAL refused '{}': {}\n{}", given_, rte_strerror(error),
                                  hint.empty() ? device_choices() : hint));
  }
}

Eal::~Eal() { rte_eal_cleanup(); }

std::vector<std::uint16_t> Eal::devices() const {
  std::vector<std::uint16_t> found;
  for (std::uint64_t id = 0;; ++id) {
    id = rte_eth_find_next_owned_by(static_cast<std::uint16_t>(id), RTE_ETH_DEV_NO_OWNER);
    if (id >= RTE_MAX_ETHPORTS) break;
    found.push_back(static_cast<std::uint16_t>(id));
  }
  if (found.empty()) {
    throw ConfigError(
        fmt::format("the EAL arguments '{}' give 0 usable devices (missing, busy, or not "
                    "permitted)\n{}",
                    given_, device_choices()));
  }
  return found;
}

std::uint16_t Eal::device(const std::string& name) const {
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) return id;
  std::vector<std::string> names;
  for (const std::uint16_t one : devices()) {
    char text[RTE_ETH_NAME_MAX_LEN] = "";
    rte_eth_dev_get_name_by_port(one, text);
    names.emplace_back(text);
  }
  throw ConfigError(fmt::format("no device '{}'; the EAL arguments '{}' give: {}", name, given_,
                                fmt::join(names, ", ")));
}

std::vector<unsigned> Eal::worker_lcores() {
  std::vector<unsigned> lcores;
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores.push_back(lcore);
  if (lcores.empty()) lcores.push_back(rte_get_main_lcore());
  return lcores;
}

void pin_to(unsigned lcore) {
  const rte_cpuset_t cpus = rte_lcore_cpuset(lcore);
  pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
}

void leave_workers_cpus(const cpu_set_t& cpus) {
  cpu_set_t others = cpus;
  for (const unsigned lcore : Eal::worker_lcores()) {
    const rte_cpuset_t worker = rte_lcore_cpuset(lcore);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &worker)) CPU_CLR(cpu, &others);
    }
  }
  sched_setaffinity(0, sizeof cpus, CPU_COUNT(&others) > 0 ? &others : &cpus);
}

}  // namespace tiercast::dpdk
