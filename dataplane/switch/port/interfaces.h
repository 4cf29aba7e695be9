// Network interfaces of this network namespace: what exists, and the switching off of offloads.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tiercast::vswitch {

// An interface cannot serve as a port; the text names it and says what to do.
class InterfaceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Interface {
  int index = 0;
  unsigned mtu = 0;  // bytes of IP
};

std::vector<std::string> interface_names();

// Throws InterfaceError if it does not exist (naming those that do), is down, or is not Ethernet.
Interface find_interface(const std::string& name);

// Whether it exists, is up, and has a carrier.
bool is_running(const std::string& name);

// Says when something about this network namespace's interfaces changed.
class InterfaceEvents {
 public:
  InterfaceEvents();                    // throws std::system_error
  int fd() const { return fd_.get(); }  // readable: something changed since the last clear()
  void clear();

 private:
  UniqueFd fd_;
};

// Switches off segmentation, receive coalescing, checksum and VLAN offloads: with them the kernel
// hands over frames above the MTU, or unfinished ones. Returns the features that would not go off
// (none on veth); they stay off when the process ends. An interface without ethtool has none.
std::vector<std::string> disable_offloads(const std::string& name);

}  // namespace tiercast::vswitch
