// Network interfaces of this network namespace: finds them, watches them, and switches off their
// offloads.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tiercast::vswitch {

// An interface cannot serve as a port. The text names it and says what to do.
class InterfaceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Interface {
  int index = 0;
  unsigned mtu = 0;  // bytes of IP
};

std::vector<std::string> interface_names();

// Throws InterfaceError if the interface is down, is not Ethernet, or does not exist; the text then
// names those that do.
Interface find_interface(const std::string& name);

// Whether the interface exists, is up, and has a carrier.
bool is_running(const std::string& name);

// Receive queues of its device, as `ethtool -l` has them; 1 where it cannot say.
unsigned receive_queues(const std::string& name);

// The name of its driver, such as "veth"; empty where it cannot say.
std::string driver(const std::string& name);

// Reports that something about the interfaces of this network namespace has changed.
class InterfaceEvents {
 public:
  InterfaceEvents();                    // throws std::system_error
  int fd() const { return fd_.get(); }  // readable if something has changed since the last clear()
  void clear();

 private:
  UniqueFd fd_;
};

// Switches off segmentation, receive coalescing, checksum and VLAN offloads, with which the kernel
// would deliver frames above the MTU, or unfinished ones. Returns the features that could not be
// switched off (none on veth). They stay off when the process ends. An interface without ethtool
// support has none.
std::vector<std::string> disable_offloads(const std::string& name);

}  // namespace tiercast::vswitch
