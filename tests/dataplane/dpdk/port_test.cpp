#include "dataplane/dpdk/port.h"

#include <gtest/gtest.h>

#include <array>

#include "dataplane/dpdk/eal.h"

namespace tiercast::dpdk {
namespace {

constexpr unsigned kHeld = 7000;
// As in NICs, whose rings hold buffers of the port.
constexpr unsigned kReceiveRing = 2048, kTransmitRing = 512;

// net_null invents frames as long as there are buffers for them.
TEST(DpdkPort, FramesThatWaitLeaveBuffersForWhatIsReceivedAndSent) {
  const Eal eal("port_test", {"--vdev=net_null0", "--no-huge", "--no-shconf", "--no-pci",
                              "--no-telemetry", "-m", "64"});
  PortNeeds needs;
  needs.queues = 2;
  needs.many_frames = true;
  needs.held_frames = kHeld;
  Port port(eal.devices().front(), needs);
  std::array<rte_mbuf*, Port::kBurst> burst;
  for (unsigned taken = 0; taken < kHeld + kReceiveRing; taken += Port::kBurst) {
    ASSERT_EQ(port.receive_burst(burst), Port::kBurst) << taken;
  }
  for (unsigned i = 0; i < needs.queues * kTransmitRing; ++i) {
    ASSERT_NE(port.allocate_buffer(), nullptr) << i;
  }
}

}  // namespace
}  // namespace tiercast::dpdk
