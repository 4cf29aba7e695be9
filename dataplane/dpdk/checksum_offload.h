// The checksums that a device computes.
#pragma once

namespace tiercast::dpdk {

struct ChecksumOffload {
  bool ipv4 = false;
  bool udp = false;
};

}  // namespace tiercast::dpdk
