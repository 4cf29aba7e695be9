#include "dataplane/sender/port/link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tiercast::sender {
namespace {

UniqueFd opened(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
  return UniqueFd(descriptor);
}

// A netlink socket that gets a notice of every change of any interface on this machine.
UniqueFd kernel_notices() {
  UniqueFd socket =
      opened(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE),
             "netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::system_error(errno, std::generic_category(), "netlink socket");
  }
  return socket;
}

}  // namespace

LinkWatch::LinkWatch(Port& port, agent::EventLoop& loop, std::function<void(bool)> changed)
    : port_(port), changed_(std::move(changed)) {
  if (port.interrupts_at_link_change()) {
    notice_ = opened(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd");
    port.on_link_change([descriptor = notice_.get()] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(descriptor, &one, sizeof one);
    });
  } else if (!port.interface().empty()) {
    notice_ = kernel_notices();
  }
  if (notice_.get() >= 0) {
    loop.watch(notice_.get(), [this] {
      // The content does not matter, nor whether the socket has lost some of it.
      std::array<std::byte, 4096> notice;
      while (read(notice_.get(), notice.data(), notice.size()) > 0) {
      }
      poll();
    });
  }
  up_ = port.link_up();
  changed_(up_);
}

LinkWatch::~LinkWatch() {
  if (port_.interrupts_at_link_change()) port_.on_link_change(nullptr);
}

void LinkWatch::poll() {
  const bool up = port_.link_up();
  if (up == up_) return;
  up_ = up;
  changed_(up);
}

}  // namespace tiercast::sender
