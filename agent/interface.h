// What an agent asks of a Linux network interface.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace tiercast::agent {

// Name of interface `index`; empty if there is none.
std::string interface_name(unsigned index);
// 0 if there is none.
unsigned interface_index(const std::string& name);
// "lo, h15-eth0": for error texts.
std::string interface_names();

// IPv4 address of the interface, host order; nothing if it has none.
std::optional<std::uint32_t> interface_ipv4(const std::string& name);

// On a veth: turns off checksum, segmentation and receive offloads. They leave checksums undone and
// glue packets together, which a packet socket at the other end would see. Returns
// "" or what went wrong; other drivers are left alone.
std::string disable_veth_offloads(const std::string& name);

// Asked again and again, so it keeps its socket.
class InterfaceState {
 public:
  explicit InterfaceState(const std::string& name);
  // Up, and with a carrier; false if the interface is gone.
  bool running() const;

 private:
  std::string name_;
  UniqueFd socket_;
};

}  // namespace tiercast::agent
