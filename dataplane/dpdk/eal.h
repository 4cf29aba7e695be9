// DPDK's environment (EAL), which a process initialises once, and the devices that it gives.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tiercast::dpdk {

class Eal {
 public:
  // `arguments`: the part before "--" on the command line. Without a choice of cores, one lcore
  // floats over the CPUs that the process may use. ConfigError: the EAL refuses; the text gives the
  // cause and what would do.
  Eal(const std::string& program, const std::vector<std::string>& arguments);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  // The devices, by number. ConfigError: there is none, or one that cannot be used.
  std::vector<std::uint16_t> devices() const;
  // By the name that DPDK gives it, such as "net_af_packet0". ConfigError: there is none.
  std::uint16_t device(const std::string& name) const;

  // The lcores that run workers: all but the main one, or the main one if it is the only one.
  static std::vector<unsigned> worker_lcores();

 private:
  std::string given_;
};

// Lets the calling thread run on the CPUs of `lcore` alone.
void pin_to(unsigned lcore);

// The EAL pins the thread that makes it to its first lcore. That thread and those that it starts
// (gRPC, HTTP, files) may run for milliseconds at a time, so this gives it the CPUs of `cpus`,
// those of the process before the EAL, that run no worker; all, if none is without.
void leave_workers_cpus(const cpu_set_t& cpus);

// Why the EAL would refuse these arguments: CPUs that this machine or process does not have. "" if
// nothing is wrong with them.
std::string cpu_problem(const std::vector<std::string>& arguments,
                        const std::vector<unsigned>& cpus);
// What to do about an error of rte_eal_init() (of errno's numbers): text for the user, or "".
// `huge_pages`: how many the machine has reserved.
std::string eal_hint(int error, const std::vector<std::string>& arguments,
                     std::uint64_t huge_pages);

}  // namespace tiercast::dpdk
