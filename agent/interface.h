// What an agent needs to know of a Linux network interface.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace tiercast::agent {

// The name of interface `index`; empty if there is none.
std::string interface_name(unsigned index);
// The index of the interface; 0 if there is none.
unsigned interface_index(const std::string& name);
// The names of all interfaces, for error texts: "lo, h15-eth0".
std::string interface_names();
// Its MTU: IP bytes of the largest packet. std::system_error: it cannot be read.
std::uint32_t interface_mtu(const std::string& name);

// On a veth: switches off checksum, segmentation and receive offloads, because with them a packet
// socket at the other end would see incomplete checksums and merged packets. Returns "", or what
// went wrong. Other drivers are left alone.
std::string disable_veth_offloads(const std::string& name);

// The state of an interface. It keeps its socket, because it is asked often.
class InterfaceState {
 public:
  explicit InterfaceState(const std::string& name);
  // Whether the interface is up and has a carrier. False if the interface has gone.
  bool running() const;

 private:
  std::string name_;
  UniqueFd socket_;
};

}  // namespace tiercast::agent
