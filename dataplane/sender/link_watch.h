// Says when a port's link goes down or comes up: at once where the kernel says so of an interface
// of its own (netlink), or the driver by an interrupt (RTE_ETH_DEV_INTR_LSC); else when it is
// looked.
#pragma once

#include <functional>

#include "agent/event_loop.h"
#include "base/unique_fd.h"
#include "dataplane/sender/port.h"

namespace tiercast::sender {

class LinkWatch {
 public:
  // Calls `changed` at each change, from loop.wait() or look(), and once from here. `port` must
  // outlive the object, and the object the last loop.wait(). System errors are thrown as
  // std::system_error.
  LinkWatch(Port& port, agent::EventLoop& loop, std::function<void(bool up)> changed);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // To be called some times a second: not every driver that has an interrupt tells us of it.
  void look();

 private:
  Port& port_;
  const std::function<void(bool)> changed_;
  bool up_ = true;
  UniqueFd notice_;  // readable after a change; -1: nobody says so
};

}  // namespace tiercast::sender
