// Receives a session's groups through the kernel: IGMP joins and leaves, ECN field, arrival times,
// drops.
//
// There is one UDP socket for all groups, so that packets of all layers are read in order of
// arrival. One thread calls everything; system errors are thrown as std::system_error.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/clock.h"
#include "base/unique_fd.h"
#include "protocols/base/units.h"

namespace tiercast::hosts {

struct Datagram {
  std::span<const std::byte> message;  // the first kMaxBytes of it
  std::uint32_t length = 0;            // of the whole UDP payload, bytes
  std::uint32_t source = 0;            // IPv4 address, host order
  std::uint32_t destination = 0;
  bool ce = false;
  Time arrival;  // the kernel's receive stamp, as CLOCK_MONOTONIC
};

// Whether an error of a socket is one that an ICMP message has left there, which anybody may forge
// (RFC 5927), or that an interface has: the socket is as good as before.
bool is_of_the_network(int error);

class GroupSocket {
 public:
  static constexpr unsigned kBatch = 64;
  static constexpr std::size_t kMaxBytes = 9216;

  // Receives only on `interface`. `port`: the UDP destination port, which other processes of the
  // host may use as well.
  GroupSocket(const std::string& interface, std::uint16_t port);

  // From now on the kernel hands this socket all that comes from that address and port to this host
  // alone, rather than to another socket of the host with the same port; and nothing else.
  void connect(std::uint32_t address, std::uint16_t port);

  // The kernel sends the IGMP membership reports. It is an error to join a group twice, or to leave
  // one that was not joined.
  void join(std::uint32_t group);
  void leave(std::uint32_t group);

  // Up to kBatch datagrams, oldest first; empty if none waits. Views are valid until the next call.
  // Errors of the network are counted, and end nothing.
  std::span<const Datagram> receive();

  int descriptor() const { return fd_.get(); }
  // Datagrams that the kernel has dropped at this socket (full buffer or wrong UDP checksum), as of
  // the last datagram received.
  std::uint32_t dropped() const { return dropped_; }
  // What receive() has met of errors of the network.
  std::uint64_t network_errors() const { return network_errors_; }

 private:
  static constexpr std::size_t kControlBytes = 256;
  struct Buffers {
    std::array<mmsghdr, kBatch> headers;
    std::array<iovec, kBatch> vectors;
    std::array<sockaddr_in, kBatch> sources;
    alignas(cmsghdr) std::array<std::array<std::byte, kControlBytes>, kBatch> control;
    std::array<std::array<std::byte, kMaxBytes>, kBatch> data;
  };

  void change_membership(int option, const char* what, std::uint32_t group);
  void prepare();
  Datagram read_datagram(unsigned index);

  UniqueFd fd_;
  int interface_index_;
  agent::StampClock stamps_;
  std::unique_ptr<Buffers> buffers_;
  std::array<Datagram, kBatch> datagrams_;
  std::uint32_t dropped_ = 0;
  std::uint64_t network_errors_ = 0;
};

}  // namespace tiercast::hosts
