// Reports when a port's link goes down or up. Where the kernel announces it (netlink, for its own
// interfaces) or the driver raises an interrupt (RTE_ETH_DEV_INTR_LSC), it reports at once;
// otherwise when polled.
#pragma once

#include <functional>

#include "agent/event_loop.h"
#include "base/unique_fd.h"
#include "dataplane/dpdk/port.h"

namespace tiercast::sender {

using dpdk::Port;

class LinkWatch {
 public:
  // Calls `changed` at each change, from loop.wait() or poll(), and once from the constructor.
  // `port` must outlive the object, and the object must outlive the last loop.wait(). Throws
  // std::system_error.
  LinkWatch(Port& port, agent::EventLoop& loop, std::function<void(bool up)> changed);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // To be called several times a second, because not every driver with an interrupt announces
  // changes.
  void poll();

 private:
  Port& port_;
  const std::function<void(bool)> changed_;
  bool up_ = true;
  UniqueFd notice_;  // readable after a change; -1: nothing announces changes
};

}  // namespace tiercast::sender
