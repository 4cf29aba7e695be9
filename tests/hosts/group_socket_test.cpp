#include "hosts/group_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string_view>

namespace tiercast::hosts {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000001;

// A UDP socket of its own on the loopback device, and its port.
struct Peer {
  UniqueFd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  Peer() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(kLoopback);
    socklen_t length = sizeof at;
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
    port = ntohs(at.sin_port);
  }

  void say(std::uint16_t to, std::string_view what) const {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(to);
    there.sin_addr.s_addr = htonl(kLoopback);
    EXPECT_EQ(sendto(fd.get(), what.data(), what.size(), 0,
                     reinterpret_cast<const sockaddr*>(&there), sizeof there),
              static_cast<ssize_t>(what.size()));
  }
};

std::uint16_t port_of(const GroupSocket& socket) {
  sockaddr_in at{};
  socklen_t length = sizeof at;
  EXPECT_EQ(getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  return ntohs(at.sin_port);
}

// The kernel answers what is sent to a closed port with ICMP at once, as an attacker does who
// quotes the flow of a socket that never sends.
void refuse(const GroupSocket& socket) { EXPECT_EQ(::send(socket.descriptor(), "x", 1, 0), 1); }

TEST(GroupSocket, AnIcmpErrorBetweenTwoDatagramsIsCountedAndLosesNeither) {
  Peer sender;
  GroupSocket socket("lo", 0);
  const std::uint16_t port = port_of(socket);
  socket.connect(kLoopback, sender.port);
  sender.say(port, "before");
  sender.fd = UniqueFd();  // nobody is there: what follows is refused
  refuse(socket);
  EXPECT_EQ(socket.receive().size(), 1u);
  EXPECT_EQ(socket.network_errors(), 1u);
  refuse(socket);
  EXPECT_TRUE(socket.receive().empty());
  EXPECT_EQ(socket.network_errors(), 2u);
}

TEST(GroupSocket, OtherErrorsOfAReceivingSocketAreThrown) {
  for (const int error : {EBADF, EINVAL, ENOTSOCK, ENOMEM, EFAULT}) {
    EXPECT_FALSE(is_of_the_network(error)) << error;
  }
}

}  // namespace
}  // namespace tiercast::hosts
